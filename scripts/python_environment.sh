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
# uv unpacks each package once, into the user's cache, and links it from there: a second environment takes seconds, where
# pip unpacks 5 GB again. pip has settings of the machine's (an index, certificates) that uv does not read, so it follows.
# Neither compiles what comes: most of it is never imported, and Python compiles the rest when it is.
install_with_uv() {
  run_logged uv "$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check --no-deps uv==0.13.9 &&
    run_logged uv "$venv/bin/uv" pip install --no-progress --python "$venv/bin/python" "${missing[@]/#/--requirement=}"
}

# Unpacks beside the environment: /tmp is often too small for 3 GB.
install_with_pip() {
  mkdir -p build/pip_temporary
  TMPDIR=$repository/build/pip_temporary run_logged pip "$venv/bin/python" -m pip install --progress-bar off \
    --disable-pip-version-check --no-compile "${missing[@]/#/--requirement=}"
  rm -rf build/pip_temporary
}

if ! install_with_uv; then
  echo "    uv could not install them; now with pip"
  install_with_pip || die "pip could not install ${missing[*]}: no network, or a full disk; see the lines above." \
    "Run make again: it goes on where it was."
fi
for list in "${missing[@]}"; do
  content_of "$list" > "$(stamp_of "$list")"
done
end_step "installed"
