# Sourced after progress.sh by what needs Debian packages.

install_debian_packages() { # install_debian_packages LIST...: files with a package on each line
  begin_step "Debian packages"
  local wanted
  mapfile -t wanted < <(grep -hv '^#' "$@")
  if ! command -v apt-get dpkg-query > /dev/null; then
    die "this is not a Debian system (no apt-get here)." \
        "The set-up is made for Debian 12. Elsewhere, install the counterparts of $* yourself:" \
        "${wanted[*]}" "then build with: cmake --preset release && cmake --build --preset release"
  fi
  local missing=() package
  for package in "${wanted[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then
    end_step "all ${#wanted[@]} packages are here"
    return
  fi
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null || die "missing Debian packages, and neither root nor sudo to install them." \
      "Have an administrator run: apt-get install ${missing[*]}"
    sudo -v || die "sudo refused." "Have an administrator run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "    installing: ${missing[*]}"
  run_logged apt_update "${as_root[@]}" apt-get update || die "apt-get update failed (no network, or a wrong" \
    "/etc/apt/sources.list). Correct that and run make again, or install by hand:" "${missing[*]}"
  run_logged apt_install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}" "See the lines above; run make again when that is corrected."
  end_step "${#missing[@]} packages installed"
}
