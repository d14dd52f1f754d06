#!/usr/bin/env bash
# Installs what Shoal's build needs and the machine lacks. A second run finds everything there and takes no time.
set -euo pipefail
phase=setup step_count=2
source "$(dirname "$0")/progress.sh"
source scripts/install_debian_packages.sh

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
install_debian_packages scripts/debian_packages.txt
install_python_environment
