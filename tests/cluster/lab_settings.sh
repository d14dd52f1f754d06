# Sourced by lab.sh and lab_inside.sh: where things are, and the lab's addresses. These live in its own network namespace.

tools=$(realpath "$own_folder/../../build/tools")/kubernetes
lab=$(realpath -m "${SHOAL_LAB:-$own_folder/../../build/cluster/lab}")
running=$lab/running
# On the machine's loopback: the API server's, and the three after it.
port=${SHOAL_LAB_PORT:-16443}
node_network=198.18.0 # kept for benchmarks of networks (RFC 2544)
pod_network=10.244.0
service_network=10.96.0
first_node=$node_network.1

own_cgroup() { # own_cgroup NAME: moves this shell into a cgroup of that name in every hierarchy, and says which those are
  local number controllers path parent cgroup
  while IFS=: read -r number controllers path; do
    [ -n "$controllers" ] || continue
    parent=/sys/fs/cgroup/${controllers#name=}${path%/}
    cgroup=$parent/$1
    mkdir -p "$cgroup"
    echo "$cgroup"
    if [ "$controllers" = cpuset ]; then
      cat "$parent/cpuset.cpus" > "$cgroup/cpuset.cpus"
      cat "$parent/cpuset.mems" > "$cgroup/cpuset.mems"
    fi
    echo "$BASHPID" > "$cgroup/cgroup.procs"
  done < /proc/self/cgroup
}
