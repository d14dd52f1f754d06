#!/usr/bin/env bash
# Puts helm into build/tools/helm, built from its Go module: the tests check the chart with it.
set -euo pipefail
phase=helm step_count=1
source "$(dirname "$0")/progress.sh"
source scripts/go.sh

helm_version=v3.19.5
# What the released binaries of this version say too: which Kubernetes `helm template` renders for.
kubernetes_minor=34
tools=$repository/build/tools
stamp=$tools/helm_version_installed

begin_step "helm $helm_version into build/tools"
if [ "$(cat "$stamp" 2> /dev/null)" = "$helm_version" ]; then
  end_step "up to date"
  exit 0
fi
find_go
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
