#!/usr/bin/env bash
# Removes what was built. The Python environment and the tools stay; `rm -rf build` takes them too.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -d build ] || exit 0
find build -mindepth 1 -maxdepth 1 ! -name venv ! -name tools -exec rm -rf {} +
rm -f build/venv/shoal_package_installed
