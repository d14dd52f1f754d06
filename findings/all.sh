#!/usr/bin/env bash
# Runs all findings, with one installation of what they share. Says which ones are no longer as they were.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
FINDINGS_FOLDER=$(mktemp -d)
export FINDINGS_FOLDER
trap 'rm -rf "$FINDINGS_FOLDER"' EXIT
changed=()
for finding in "$here"/*.sh; do
  case ${finding##*/} in all.sh | environment.sh) continue ;; esac
  printf '\n== %s\n' "${finding##*/}"
  "$finding" || changed+=("${finding##*/}")
done
printf '\n%s\n' "changed: ${changed[*]:-none}"
[ ${#changed[@]} -eq 0 ]
