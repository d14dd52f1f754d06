#!/usr/bin/env bash
# Makes the root folder of a bare Debian: mmdebstrap's minbase and the packages. Debian's servers are those of this
# machine's apt; how apt and pip reach them (settings, certificates) is copied. As root; nothing may be at ROOT.
#   scripts/bare_root.sh ROOT SUITE PACKAGE...     such as: scripts/bare_root.sh /var/tmp/bare/root trixie python3-venv
set -euo pipefail

die() {
  echo "error: $1" >&2
  exit 1
}
[ $# -ge 2 ] || die "which folder, and which suite of Debian? Say: scripts/bare_root.sh ROOT SUITE PACKAGE..."
[ "$(id -u)" = 0 ] || die "a root needs root."
command -v mmdebstrap > /dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
root=$1 suite=$2
shift 2
[ ! -e "$root" ] || die "$root is there already; remove it, or give another folder."
packages=(ca-certificates "$@")

temporary=$(mktemp -d)
made=no
end() {
  rm -rf "$temporary"
  [ "$made" = yes ] || rm -rf "$root"
}
trap end EXIT
sources=/etc/apt/sources.list.d/debian.sources
[ -f "$sources" ] || sources=/etc/apt/sources.list
own_suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
sed "s/\b$own_suite\b/$suite/g" "$sources" > "$temporary/${sources##*/}"
apt-config dump | grep -E '^Acquire::(https?|Check)' > "$temporary/settings" || :
mmdebstrap --variant=minbase --aptopt="$temporary/settings" --include="$(IFS=, && echo "${packages[*]}")" \
  "$suite" "$root" "$temporary/${sources##*/}"
for path in /etc/resolv.conf /etc/hosts /etc/pip.conf /opt/wheels /usr/local/share/ca-certificates; do
  [ ! -e "$path" ] || { mkdir -p "$root$(dirname "$path")" && cp -rL "$path" "$root$(dirname "$path")"; }
done
chroot "$root" update-ca-certificates
made=yes
