#!/usr/bin/env bash
# Installs what Shoal's build needs and the machine lacks. A second run finds everything there and takes no time.
set -euo pipefail
phase=setup step_count=2
source "$(dirname "$0")/progress.sh"

install_debian_packages() {
  begin_step "Debian packages"
  mapfile -t wanted < <(grep -v '^#' scripts/debian_packages.txt)
  if ! command -v apt-get dpkg-query > /dev/null; then
    die "this is not a Debian system (no apt-get here)." \
        "The set-up is made for Debian 12. Elsewhere, install the counterparts of scripts/debian_packages.txt yourself:" \
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
    "/etc/apt/sources.list). Mend that and run make again, or install by hand:" "${missing[*]}"
  run_logged apt_install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}" "See the lines above; run make again when that is mended."
  end_step "${#missing[@]} packages installed"
}

install_python_environment() {
  begin_step "Python environment with PyTorch in build/venv"
  local venv=$repository/build/venv stamp wanted
  stamp=$venv/shoal_requirements_installed
  # The path is part of it: an environment does not survive that its folder moves.
  wanted="$venv $(/usr/bin/python3 --version) $(sha256sum < scripts/requirements.txt)"
  if [ "$(cat "$stamp" 2> /dev/null)" = "$wanted" ]; then
    end_step "up to date"
    return
  fi
  if ! [ -d "$venv/lib/python3.11/site-packages/torch" ]; then
    local needed=9 free
    free=$(free_gib build)
    [ "$free" -ge $needed ] || die "too little disk: $repository/build has $free GiB free, PyTorch needs $needed GiB."
    echo "    fetching PyTorch and its CUDA libraries: about 3 GB to download, 5.4 GB on disk; one minute on a fast line"
  fi
  if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import pip' 2> /dev/null ||
    ! grep -q "$venv\$" "$venv/pyvenv.cfg"; then
    rm -rf "$venv"
    run_logged venv /usr/bin/python3 -m venv "$venv" || die "python3 -m venv failed."
  fi
  # Unpacks beside the environment: /tmp is often too small for 3 GB.
  mkdir -p build/pip_temporary
  TMPDIR=$repository/build/pip_temporary run_logged pip "$venv/bin/python" -m pip install --progress-bar off \
    --disable-pip-version-check -r scripts/requirements.txt ||
    die "pip could not install scripts/requirements.txt: no network, or a full disk; see the lines above." \
        "Run make again: it goes on where it was."
  rm -rf build/pip_temporary
  echo "$wanted" > "$stamp"
  end_step "installed"
}

mkdir -p build
install_debian_packages
install_python_environment
