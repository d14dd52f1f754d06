# Sourced by the findings: a temporary folder, and the packages that they ask for in it. When a finding ends, so have the
# processes that it has started, and the folder is gone. all.sh gives all findings one folder, which it removes itself.
set -euo pipefail
folder=${FINDINGS_FOLDER:-$(mktemp -d)}

finish() {
  local processes
  processes=$(jobs -p)
  [ -z "$processes" ] || kill -9 $processes 2>/dev/null || true
  wait
  [ -n "${FINDINGS_FOLDER-}" ] || rm -rf "$folder"
}
trap finish EXIT

# NAME==VERSION...: $python has these packages then.
python_packages() {
  python=$folder/venv/bin/python
  [ -x "$python" ] || python3 -m venv "$folder/venv"
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir "$@"
}

# NAME VERSION: unpacked in $folder/NAME then, and not installed.
debian_package() {
  [ -d "$folder/$1" ] && return
  (cd "$folder" && apt-get download --quiet --quiet --option APT::Sandbox::User=root "$1=$2" && dpkg -x "$1"_*.deb "$1")
}
