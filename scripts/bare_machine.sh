#!/usr/bin/env bash
# What a newcomer waits for: clones the last commit into a bare Debian 12 (mmdebstrap's minbase with git and make) and runs
# the targets there, each with its time. As root; its folder, 20 GB, is removed at the end.
#   scripts/bare_machine.sh FOLDER TARGET...     such as: scripts/bare_machine.sh /var/tmp/bare demo test
set -euo pipefail
phase=bare step_count=$#
source "$(dirname "$0")/progress.sh"
[ $# -ge 2 ] || die "which folder, and which targets of the Makefile? Say: scripts/bare_machine.sh FOLDER TARGET..."
mkdir -p "$1"
root=$(realpath "$1")/root
[ ! -e "$root" ] || die "$root is there already; remove it, or give another folder."
shift

begin_step "a bare Debian 12 in $root"
trap 'rm -rf "$root"; end_what_was_started' EXIT
run_logged bare_root scripts/bare_root.sh "$root" bookworm git make || die "no root was made; see the lines above."
git clone --quiet "$repository" "$root/srv/shoal"
end_step "made"

for target; do
  begin_step "make $target"
  status=0
  scripts/in_root.sh "$root" env -C /srv/shoal make "$target" < /dev/null || status=$?
  end_step "status $status"
  [ "$status" = 0 ] || exit "$status"
done
