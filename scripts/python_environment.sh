#!/usr/bin/env bash
# Puts what Shoal needs of Python into build/venv: scripts/python_environment.sh LIST... with lists of packages, such as
# scripts/requirements.txt. A second run finds everything there and takes no time.
set -euo pipefail
phase=python step_count=1
source "$(dirname "$0")/progress.sh"

venv=$repository/build/venv

# The path is part of it: an environment does not survive that its folder moves.
content_of() { # content_of LIST
  echo "$venv $(/usr/bin/python3 --version) $(sha256sum < "$1")"
}

stamp_of() { # stamp_of LIST
  echo "$venv/$(basename "$1" .txt)_installed"
}

begin_step "Python environment in build/venv"
missing=()
for list in "$@"; do
  [ "$(cat "$(stamp_of "$list")" 2> /dev/null)" = "$(content_of "$list")" ] || missing+=("$list")
done
if [ ${#missing[@]} = 0 ]; then
  end_step "up to date"
  exit 0
fi
mkdir -p build
if ! [ -d "$venv/lib/python3.11/site-packages/torch" ]; then
  needed=9
  free=$(free_gib build)
  [ "$free" -ge $needed ] || die "too little disk: $repository/build has $free GiB free, PyTorch needs $needed GiB."
  echo "    fetching PyTorch and its CUDA libraries: about 3 GB to download, 5.4 GB on disk; one minute on a fast line"
fi
if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import pip' 2> /dev/null ||
  ! grep -q "$venv\$" "$venv/pyvenv.cfg"; then
  rm -rf "$venv"
  run_logged venv /usr/bin/python3 -m venv "$venv" || die "python3 -m venv failed."
fi
# Unpacks beside the environment: /tmp is often too small for 3 GB. Most of what comes is never imported: Python compiles
# the rest when it is.
mkdir -p build/pip_temporary
TMPDIR=$repository/build/pip_temporary run_logged pip "$venv/bin/python" -m pip install --progress-bar off \
  --disable-pip-version-check --no-compile "${missing[@]/#/--requirement=}" ||
  die "pip could not install ${missing[*]}: no network, or a full disk; see the lines above." \
    "Run make again: it goes on where it was."
rm -rf build/pip_temporary
for list in "${missing[@]}"; do
  content_of "$list" > "$(stamp_of "$list")"
done
end_step "installed"
