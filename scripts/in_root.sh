#!/usr/bin/env bash
# Runs a command in a root folder (scripts/bare_root.sh), in mount and process namespaces of their own. It shares this
# machine's cores, and the network of the caller; it ends with all that it started. As root.
#   scripts/in_root.sh [--changes FOLDER] ROOT COMMAND...
# --changes: ROOT stays as it is; what changes is in FOLDER/upper, which may have files before.
set -euo pipefail
changes=
[ "${1:-}" != --changes ] || { changes=$(realpath "$2") && shift 2; }
[ $# -ge 2 ] || { echo "error: which root, and which command? Say: scripts/in_root.sh ROOT COMMAND..." >&2 && exit 2; }
root=$(realpath "$1")
shift
# shellcheck disable=SC2016 # the inner shell expands them
exec unshare --mount --pid --fork --kill-child bash -euc '
  root=$0 changes=$1
  shift
  if [ -n "$changes" ]; then
    mkdir -p "$changes"/{upper,work,root}
    mount -t overlay -o "lowerdir=$root,upperdir=$changes/upper,workdir=$changes/work" overlay "$changes/root"
    root=$changes/root
  else
    mount --bind "$root" "$root" # so that what runs there finds a mount point at /
  fi
  cd "$root"
  mount --rbind /sys sys
  mount --rbind /dev dev
  mount -t proc proc proc
  mount -t tmpfs tmpfs run
  exec chroot . "$@"' "$root" "$changes" "$@"
