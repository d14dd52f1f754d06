#!/usr/bin/env bash
# Installs what Shoal's build and tests need and the machine lacks. A second run finds everything there and takes no time.
set -euo pipefail
part=all
phase=setup step_count=1
source "$(dirname "$0")/progress.sh"
source scripts/install_debian_packages.sh
source scripts/parts.sh

install_debian_packages "${debian_lists[@]}"
scripts/python_environment.sh "${python_lists[@]}"
