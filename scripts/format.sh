#!/usr/bin/env bash
# Puts the C++ sources into the project's format; with --check only says which ones are not.
set -euo pipefail
cd "$(dirname "$0")/.."
# The same release from PyPI and from Debian: another one formats differently.
formatter=build/venv/bin/clang-format
[ -x $formatter ] || formatter=$(command -v clang-format-14) ||
  { echo "error: no clang-format 14 here; run: make setup" >&2; exit 1; }
options=(-i)
[ "${1-}" != --check ] || options=(--dry-run --Werror)
git ls-files --cached --others --exclude-standard -z '*.cc' '*.h' | xargs -0 "$formatter" "${options[@]}"
