#!/usr/bin/env bash
# Compiles a Kubernetes, with etcd, CoreDNS, the pause image and kwok (simulated nodes), from Go modules into
# build/tools/kubernetes: 6 to 12 minutes once, nothing afterwards. The go.mod beside each main.go has the versions.
set -euo pipefail
phase=kubernetes step_count=1
source "$(dirname "$0")/../../scripts/progress.sh"
source scripts/go.sh

kwok_version=v0.7.0
sources=$repository/tests/cluster
tools=$repository/build/tools/kubernetes
kubernetes_version=$(sed -n 's#.*k8s.io/kubernetes \(v[0-9.]*\)$#\1#p' "$sources/kubernetes/go.mod")
minor=${kubernetes_version#v1.}

begin_step "Kubernetes $kubernetes_version into build/tools/kubernetes"
wanted=$(cat "$sources"/{kubernetes,coredns,pause}/{main.go,go.mod} "$sources/build_kubernetes.sh" | sha256sum)
if [ "$(cat "$tools/built_from" 2> /dev/null)" = "$wanted" ]; then
  end_step "up to date"
  exit 0
fi
mkdir -p "$tools"
rm -f "$tools/built_from"
find_go
export CGO_ENABLED=0 GOTOOLCHAIN=local
compile() { # compile MODULE OUTPUT [OPTION...]
  echo "    compiling $1"
  run_logged "$1" "$go" build -C "$sources/$1" -v -trimpath -p "$jobs" "${@:3}" -o "$tools/$2" . ||
    die "$1 could not be compiled: no way to the Go modules? See the lines above."
}
named=k8s.io/component-base/version
compile kubernetes kubernetes -tags notest,grpcnotrace \
  -ldflags "-s -w -X $named.gitVersion=$kubernetes_version -X $named.gitMajor=1 -X $named.gitMinor=${minor%%.*}"
for component in etcd kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet; do
  ln -sf kubernetes "$tools/$component"
done
compile coredns coredns -ldflags "-s -w"
compile pause pause -ldflags "-s -w"
echo "    compiling kwok"
GOBIN=$tools run_logged kwok "$go" install -v -trimpath -p "$jobs" -ldflags "-s -w" \
  "sigs.k8s.io/kwok/cmd/kwok@$kwok_version" || die "kwok could not be compiled; see the lines above."

# The pause image, as the archive that `docker save` makes of an image: one layer with one static binary.
cd "$tools"
tar --owner=0 --group=0 --mtime=@0 -cf layer.tar pause
cat > config.json << END
{"architecture": "$("$go" env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d ' ' -f 1)"]}}
END
echo '[{"Config": "config.json", "RepoTags": ["localhost/pause:lab"], "Layers": ["layer.tar"]}]' > manifest.json
tar -cf pause.tar manifest.json config.json layer.tar
rm manifest.json config.json layer.tar
echo "$wanted" > built_from
end_step "ready"
