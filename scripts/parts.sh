# Sourced with `part` set: what each part needs to be installed and built. The parts share everything that is made, so
# going from one to the next does nothing twice.
#   demo   what `make demo` runs
#   all    everything, tests included

case $part in
  demo)
    debian_lists=(scripts/debian_packages.txt)
    python_lists=(scripts/requirements.txt)
    targets=(shoal shoal-scheduler shoal-server shoalctl)
    ;;
  all)
    debian_lists=(scripts/debian_packages.txt scripts/debian_packages_tests.txt)
    python_lists=(scripts/requirements.txt scripts/requirements_tests.txt)
    targets=(all)
    ;;
  *) die "there is no part '$part' to build: it is demo or all." ;;
esac
