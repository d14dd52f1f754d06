#!/usr/bin/env bash
# Puts the C++ sources into the project's format; with --check only says which ones are not.
set -euo pipefail
cd "$(dirname "$0")/.."
formatter=build/venv/bin/clang-format
[ -x $formatter ] || { echo "error: $formatter is missing; run: make setup" >&2; exit 1; }
options=(-i)
[ "${1-}" != --check ] || options=(--dry-run --Werror)
git ls-files --cached --others --exclude-standard -z '*.cc' '*.h' | xargs -0 $formatter "${options[@]}"
