#!/usr/bin/env bash
# Puts both lines of torchft into build/torchft/VERSION, which tests put before build/venv: its release, and the nightly
# build that takes process groups that can be reconfigured. What they need of other packages is in build/venv.
set -euo pipefail
phase=torchft step_count=1
source "$(dirname "$0")/progress.sh"

packages=(torchft==0.2.0 torchft-nightly==2026.10.26)
begin_step "torchft into build/torchft"
folder=$repository/build/torchft
if [ "$(cat "$folder/installed" 2> /dev/null)" = "${packages[*]}" ]; then
  end_step "up to date"
  exit 0
fi
rm -rf "$folder"
for package in "${packages[@]}"; do
  run_logged torchft build/venv/bin/python -m pip install --progress-bar off --disable-pip-version-check --no-compile \
    --no-deps --target "$folder/${package##*==}" "$package" || die "pip could not install $package; see the lines above."
done
echo "${packages[*]}" > "$folder/installed"
end_step "installed"
