#!/usr/bin/env bash
# What a newcomer waits for: clones the last commit into a bare Debian 12 (mmdebstrap's minbase with git and make) and runs
# the targets there, each with its time. As root; its folder, 20 GB, is removed at the end.
#   scripts/bare_machine.sh FOLDER TARGET...     such as: scripts/bare_machine.sh /var/tmp/bare demo test
# The processes share this machine's network and cores, with a mount namespace of their own. How this machine's apt and
# pip reach their servers is copied: sources, settings, certificates and variables.
set -euo pipefail
phase=bare step_count=$#
source "$(dirname "$0")/progress.sh"
[ $# -ge 2 ] || die "which folder, and which targets of the Makefile? Say: scripts/bare_machine.sh FOLDER TARGET..."
[ "$(id -u)" = 0 ] || die "chroot needs root."
command -v mmdebstrap > /dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
mkdir -p "$1"
root=$(realpath "$1")/root
[ ! -e "$root" ] || die "$root is there already; remove it, or give another folder."
shift

copy_in() { # copy_in FILE...: those that are there, to the same place
  local path
  for path; do
    [ ! -e "$path" ] || { mkdir -p "$root$(dirname "$path")" && cp -rL "$path" "$root$(dirname "$path")"; }
  done
}

begin_step "a bare Debian 12 in $root"
sources=(/etc/apt/sources.list.d/debian.sources)
[ -f "${sources[0]}" ] || sources=(/etc/apt/sources.list)
apt_settings=$(mktemp)
trap 'rm -rf "$root" "$apt_settings"; end_what_was_started' EXIT
apt-config dump | grep -E '^Acquire::(https?|Check)' > "$apt_settings" || :
run_logged mmdebstrap mmdebstrap --variant=minbase --aptopt="$apt_settings" --include=ca-certificates,git,make \
  bookworm "$root" "${sources[@]}" || die "mmdebstrap could not make the root; see the lines above."
copy_in /etc/resolv.conf /etc/hosts /etc/pip.conf /opt/wheels /usr/local/share/ca-certificates
run_logged certificates chroot "$root" update-ca-certificates || die "update-ca-certificates failed in $root."
git clone --quiet "$repository" "$root/srv/shoal"
end_step "made"

for target; do
  begin_step "make $target"
  status=0
  # shellcheck disable=SC2016 # the inner shell expands them
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --bind "$0" "$0" # so that what runs there finds a mount point at /
    cd "$0"
    mount --rbind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t proc proc "$0/proc"
    mount -t tmpfs tmpfs "$0/run"
    exec chroot . env -C /srv/shoal make "$1"' "$root" "$target" < /dev/null || status=$?
  end_step "status $status"
  [ "$status" = 0 ] || exit "$status"
done
