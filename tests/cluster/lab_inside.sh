#!/usr/bin/env bash
# What lab.sh runs inside the lab's namespaces:
#   first simulated|real NODES   the first process of the lab
#   network NODES                real nodes: what holds the lab's network, and the control plane in it
#   node NUMBER                  one node, in mount, UTS and cgroup namespaces of its own
set -euo pipefail
own_folder=$(realpath "$(dirname "$0")")
source "$own_folder/lab_settings.sh"

start() { # start NAME COMMAND...: in the background, its output in running/NAME.log
  "${@:2}" > "$running/$1.log" 2>&1 &
}

wait_until() { # wait_until SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    if [ $SECONDS -ge $end ]; then
      echo "gave up waiting for: $*" >&2
      exit 1
    fi
    sleep 0.3
  done
}

reap() { # as the first process of a PID namespace has to, whatever is orphaned into it
  while :; do wait -n || sleep 0.2; done
}

# ---------------------------------------------------------------- certificates

certificate() { # certificate NAME SUBJECT [ALTERNATIVE_NAMES]
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.request" -subj "$2" 2> /dev/null
  openssl x509 -req -in "$1.request" -CA authority.crt -CAkey authority.key -CAcreateserial -days 30 -out "$1.crt" \
    -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}") 2> /dev/null
}

kubeconfig() { # kubeconfig FILE SERVER CERTIFICATE
  cat > "$1" << END
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 < authority.crt)}}]
users: [{name: lab, user: {client-certificate-data: $(base64 -w0 < "$3.crt"), client-key-data: $(base64 -w0 < "$3.key")}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
END
}

make_certificates() { # make_certificates API_SERVER REAL_NODES
  mkdir -p "$running/certificates"
  pushd "$running/certificates" > /dev/null
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout authority.key -out authority.crt \
    -subj /CN=lab 2> /dev/null
  local names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  certificate api /CN=kube-apiserver "IP:127.0.0.1,IP:$first_node,IP:$service_network.1,$names"
  certificate admin /O=system:masters/CN=admin
  certificate controllers /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate proxy /CN=system:kube-proxy
  local number users=(admin controllers scheduler proxy)
  for number in $(seq "$2"); do
    certificate "node$number" "/O=system:nodes/CN=system:node:node$number"
    users+=("node$number")
  done
  openssl genrsa -out accounts.key 2048 2> /dev/null
  openssl rsa -in accounts.key -pubout -out accounts.pub 2> /dev/null
  kubeconfig "$lab/kubeconfig" "https://127.0.0.1:$port" admin # for whoever is outside
  local user
  for user in "${users[@]}"; do kubeconfig "$user.kubeconfig" "$1" "$user"; done
  popd > /dev/null
}

# ---------------------------------------------------------------- control plane

kubectl() {
  "$tools/kubectl" --kubeconfig "$running/certificates/admin.kubeconfig" "$@"
}

control_plane() { # control_plane BIND_ADDRESS ADVERTISED_ADDRESS SILENCE: how long a node may say nothing
  local certificates=$running/certificates
  local store=http://127.0.0.1:$((port + 1)) store_peer=http://127.0.0.1:$((port + 2))
  start etcd "$tools/etcd" --data-dir "$running/etcd" --listen-client-urls "$store" --advertise-client-urls "$store" \
    --listen-peer-urls "$store_peer" --initial-advertise-peer-urls "$store_peer" --initial-cluster "default=$store_peer" \
    --unsafe-no-fsync --log-level warn
  local options=()
  [ "$2" != 127.0.0.1 ] || options=(--endpoint-reconciler-type none)
  start apiserver "$tools/kube-apiserver" --etcd-servers "$store" --bind-address "$1" --secure-port "$port" \
    --advertise-address "$2" "${options[@]}" --service-cluster-ip-range "$service_network.0/24" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --client-ca-file "$certificates/authority.crt" --cert-dir "$running/apiserver_certificates" \
    --tls-cert-file "$certificates/api.crt" --tls-private-key-file "$certificates/api.key" \
    --kubelet-preferred-address-types InternalIP \
    --kubelet-client-certificate "$certificates/admin.crt" --kubelet-client-key "$certificates/admin.key" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$certificates/accounts.pub" \
    --service-account-signing-key-file "$certificates/accounts.key"
  wait_until 120 kubectl get --raw /readyz
  start controllers "$tools/kube-controller-manager" --kubeconfig "$certificates/controllers.kubeconfig" --leader-elect=false \
    --secure-port 0 --use-service-account-credentials --service-account-private-key-file "$certificates/accounts.key" \
    --root-ca-file "$certificates/authority.crt" --cluster-signing-cert-file "$certificates/authority.crt" \
    --cluster-signing-key-file "$certificates/authority.key" --node-monitor-grace-period "$3"
  start scheduler "$tools/kube-scheduler" --kubeconfig "$certificates/scheduler.kubeconfig" --leader-elect=false --secure-port 0
}

simulated_nodes() { # simulated_nodes NODES
  start kwok "$tools/kwok" --kubeconfig "$running/certificates/admin.kubeconfig" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --server-address "127.0.0.1:$((port + 3))"
  local number
  for number in $(seq "$1"); do
    cat << END
---
apiVersion: v1
kind: Node
metadata:
  name: node$number
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: node$number, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
status:
  allocatable: &resources {cpu: "32", memory: 256Gi, pods: "110"}
  capacity: *resources
END
  done | kubectl apply -f - > "$running/nodes.log"
}

services() { # Services and DNS, once for all nodes, since they share a network
  wait_until 60 kubectl get node node1 # kube-proxy looks its node up, and is slow to ask twice
  cat > "$running/proxy.yaml" << END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: "$running/certificates/proxy.kubeconfig"}
mode: iptables
hostnameOverride: node1
clusterCIDR: "$pod_network.0/24"
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
  start proxy "$tools/kube-proxy" --config "$running/proxy.yaml"
  cat > "$running/dns.conf" << END
.:53 {
  bind $first_node
  errors
  cache 2
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $running/certificates/admin.kubeconfig
  }
}
END
  start dns "$tools/coredns" -conf "$running/dns.conf"
}

# Volumes of type `local`, for fsGroup to work, that every node "reaches": all of them are this machine.
volumes() {
  local number
  {
    cat << END
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
END
    for number in $(seq 12); do
      mkdir -p "$running/volumes/$number"
      cat << END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-$number}
spec:
  storageClassName: standard
  accessModes: [ReadWriteOnce]
  capacity: {storage: 100Gi}
  persistentVolumeReclaimPolicy: Retain
  local: {path: $running/volumes/$number}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [linux]}]}]}
END
    done
  } | kubectl apply -f - > "$running/volumes.log"
}

finish() { # finish NODES
  wait_until 120 eval "[ \"\$(kubectl get nodes --no-headers | grep -c ' Ready ')\" -ge $1 ]"
  wait_until 60 kubectl -n default get serviceaccount default
  touch "$running/ready"
}

# ---------------------------------------------------------------- real nodes

own_cgroup_view() { # in a new cgroup namespace: mounts the hierarchies again, so that the own cgroup is their root
  local hierarchies hierarchy options
  hierarchies=$(cut -d : -f 2 /proc/self/cgroup | grep .)
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for hierarchy in $hierarchies; do
    options=$hierarchy
    [[ $hierarchy != name=* ]] || options=none,$hierarchy # kubelet insists on the named hierarchy as well
    mkdir "/sys/fs/cgroup/${hierarchy#name=}"
    mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/${hierarchy#name=}"
  done
}

isolate() { # isolate NODES: mounts, settings and network of the lab, before anything starts in it
  local folder setting shown number
  mkdir -p "$running"/{settings,network,volumes}
  mount --make-rprivate /
  for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
  mount -t sysfs sysfs /sys
  own_cgroup_view
  # kubelet wants these at fixed values and would set them on the whole machine: it is shown them, and nothing changes.
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    shown=$running/settings/$(tr / . <<< "${setting%=*}")
    echo "${setting#*=}" > "$shown"
    mount --bind "$shown" "/proc/sys/${setting%=*}"
  done
  echo 1 > /proc/sys/net/ipv4/ip_forward
  [ -e /proc/sys/net/bridge ] || modprobe br_netfilter
  echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
  # No way leads out. The nodes' addresses are on the loopback device, all pods on one bridge.
  ip link set lo up
  for number in $(seq "$1"); do ip addr add "$node_network.$number/32" dev lo; done
  ip link add cni0 type bridge
  ip addr add "$pod_network.1/24" dev cni0
  ip link set cni0 up
  ip route add "$service_network.0/24" dev cni0 src "$first_node" # some route, before the address is translated
  cat > "$running/network/10-lab.conflist" << END
{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pod_network.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
  echo "nameserver $first_node" > "$running/pods_resolv.conf"
  echo "search default.svc.cluster.local svc.cluster.local cluster.local" | cat "$running/pods_resolv.conf" - > "$running/resolv.conf"
  mount --bind "$running/resolv.conf" /etc/resolv.conf # so that `lab.sh exec` finds Services by name
}

node() { # node NUMBER
  local folder=$running/node$1 socket=/run/containerd-$1/containerd.sock
  mkdir -p "$folder/kubelet" /var/lib/kubelet
  hostname "node$1"
  mount --make-rshared /
  own_cgroup_view
  mount -t tmpfs tmpfs /var/lib/kubelet
  mount -t tmpfs tmpfs /var/log
  cat > "$folder/containerd.toml" << END
version = 2
root = "$folder/containerd"
state = "/run/containerd-$1"
oom_score = 0
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:lab"
  restrict_oom_score_adj = true # a root without CAP_SYS_RESOURCE can't lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$running/network"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
END
  start "containerd$1" containerd --config "$folder/containerd.toml"
  wait_until 60 ctr -a "$socket" version
  ctr -a "$socket" -n k8s.io images import "$tools/pause.tar" > /dev/null
  cat > "$folder/kubelet.yaml" << END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_network.$1
healthzPort: 0
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: "$running/certificates/authority.crt"}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
clusterDNS: ["$first_node"]
clusterDomain: cluster.local
resolvConf: "$running/pods_resolv.conf"
containerRuntimeEndpoint: unix://$socket
volumePluginDir: "$folder/plugins"
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
nodeStatusUpdateFrequency: 5s
END
  start "kubelet$1" "$tools/kubelet" --config "$folder/kubelet.yaml" --kubeconfig "$running/certificates/node$1.kubeconfig" \
    --root-dir "$folder/kubelet" --cert-dir "$folder/kubelet/certificates" --hostname-override "node$1" \
    --node-ip "$node_network.$1"
  wait
}

# ---------------------------------------------------------------- entries

first() { # first simulated|real NODES
  cd "$running"
  if [ "$1" = simulated ]; then
    make_certificates "https://127.0.0.1:$port" 0
    control_plane 127.0.0.1 127.0.0.1 300s # kwok speaks for all nodes, and may be late
    simulated_nodes "$2"
    volumes
    finish "$2"
  else
    make_certificates "https://$first_node:$port" "$2"
    unshare --net --uts --ipc "$0" network "$2" &
    echo $! > "$running/network_holder"
    # The API server's port on the machine's loopback leads to that inside.
    start forward socat "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr" "EXEC:nsenter -t $! -n socat - TCP\:127.0.0.1\:$port"
  fi
  reap
}

network() { # network NODES
  cd "$running"
  trap 'echo "gave up: the network or the control plane of the lab failed" >&2' EXIT
  isolate "$1"
  control_plane 0.0.0.0 "$first_node" 20s
  local number
  for number in $(seq "$1"); do
    (
      own_cgroup "node$number" > /dev/null
      exec unshare --mount --uts --cgroup "$0" node "$number"
    ) &
  done
  services
  volumes
  finish "$1"
  reap
}

case ${1-} in
  first | network | node) "$@" ;;
  *)
    echo "lab_inside.sh is run by lab.sh" >&2
    exit 2 ;;
esac
