#!/usr/bin/env bash
# A Kubernetes on this machine alone, which `down` takes away without leaving anything behind. Real nodes have a network of
# their own, and only the API server's port is on the machine's loopback; with simulated ones etcd's ports are there too. As
# root, with cgroup v1; build_kubernetes.sh first.
#
#   lab.sh up --real-nodes N        control plane and N nodes: kubelets and containerds, which share one network; 9 at most
#   lab.sh up --simulated-nodes N   control plane and N nodes of kwok, which say of every pod that it runs
#   lab.sh load IMAGE.tar [NODE]    puts an archive of an image on all real nodes, or on one, such as node1
#   lab.sh exec COMMAND...          runs a command in the lab: with addresses of pods and Services, and the cluster's DNS
#   lab.sh down
#
# `kubectl` and `helm` reach it from outside too, by the file that `up` names. State and logs: build/cluster/lab, or
# SHOAL_LAB. The whole lab is one PID, mount and cgroup namespace; `down` kills its first process, and the kernel the rest.
set -euo pipefail
own_folder=$(realpath "$(dirname "$0")")
source "$own_folder/lab_settings.sh"
mkdir -p "$lab"
chmod 700 "$lab" # who reads the key in it may do everything in the cluster, as root

die() {
  printf 'lab.sh: %s\n' "$*" >&2
  exit 1
}

is_up() { # whether the recorded process is still the one that was started
  local process started status
  [ -s "$lab/process" ] && read -r process started < "$lab/process" && [ -n "$started" ] || return 1
  status=$(cut -d ' ' -f 3,22 "/proc/$process/stat" 2> /dev/null) || return 1
  [ "${status#* }" = "$started" ] && [ "${status% *}" != Z ]
}

up() { # up simulated|real NODES
  case $lab/ in /run/* | /var/lib/* | /var/log/*) die "the lab's folder $lab would be hidden inside the lab: set SHOAL_LAB" ;; esac
  [ -s "$tools/built_from" ] || die "there is no Kubernetes yet: run tests/cluster/build_kubernetes.sh"
  [ "$1" = simulated ] || [ "$(stat -fc %T /sys/fs/cgroup)" = tmpfs ] || die "real nodes need cgroup v1; this machine has v2"
  ! is_up || die "it is up already: run tests/cluster/lab.sh down first"
  down # what one that has crashed left
  rm -rf "$running"
  mkdir -p "$running"
  (
    [ "$1" = simulated ] || own_cgroup "shoal-lab-$port" > "$lab/cgroups"
    exec setsid unshare --pid --mount --cgroup --fork --kill-child --mount-proc "$own_folder/lab_inside.sh" first "$1" "$2" \
      < /dev/null > "$running/first.log" 2>&1
  ) &
  disown
  local started=$SECONDS
  trap 'down; exit 130' INT TERM HUP
  echo "$! $(cut -d ' ' -f 22 "/proc/$!/stat")" > "$lab/process"
  until [ -e "$running/ready" ]; do
    if ! is_up || grep -qs 'gave up' "$running/first.log" || [ $((SECONDS - started)) -gt 300 ]; then
      tail -n 5 "$running"/*.log >&2
      down
      die "it did not come up; the logs are above and in $running"
    fi
    sleep 0.3
  done
  echo "KUBECONFIG=$lab/kubeconfig"
}

enter() { # enter COMMAND...: runs it in the lab
  is_up || die "it is not up"
  local process started first
  read -r process started < "$lab/process"
  first=$(cut -d ' ' -f 1 "/proc/$process/task/$process/children")
  export KUBECONFIG=$lab/kubeconfig PATH=$tools:$PATH
  if [ -s "$running/network_holder" ]; then
    nsenter -t "$first" -p -m --wd="$PWD" nsenter -t "$(cat "$running/network_holder")" -m -n -u -i --wd="$PWD" "$@"
  else
    nsenter -t "$first" -p -m --wd="$PWD" "$@"
  fi
}

load() { # load IMAGE.tar [NODE]
  local node
  for node in "$running"/${2:-node?}; do
    [ -d "$node" ] || die "there is no real node $(basename "$node") in this lab"
    enter ctr -a "/run/containerd-${node#"$running"/node}/containerd.sock" -n k8s.io images import - < "$1"
  done
}

down() {
  local process started first cgroup status=0
  if is_up; then
    read -r process started < "$lab/process"
    first=$(cut -d ' ' -f 1 "/proc/$process/task/$process/children")
    kill -KILL "$process"
    for _ in $(seq 300); do # the kernel ends all processes of the namespace, and the first one last
      is_up || [ -e "/proc/${first:-none}" ] || break
      sleep 0.1
    done
    ! is_up && [ ! -e "/proc/${first:-none}" ] || die "process $process or ${first:-?} of the lab does not end"
  fi
  rm -f "$lab/process" "$lab/kubeconfig"
  while read -r cgroup; do
    for _ in $(seq 100); do # the kernel takes a moment to empty them
      find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || :
      [ -d "$cgroup" ] || break
      sleep 0.1
    done
    [ ! -d "$cgroup" ] || status=1
  done < <(cat "$lab/cgroups" 2> /dev/null)
  [ $status = 0 ] || die "cgroups of the lab could not be removed: see the folders in $lab/cgroups, and run down again"
  rm -f "$lab/cgroups"
  rm -rf "$running"/{etcd,volumes,certificates} "$running"/node? # the logs stay
}

case ${1-} in
  up)
    case ${2-} in
      --real-nodes) up real "${3:?how many nodes?}" ;;
      --simulated-nodes) up simulated "${3:?how many nodes?}" ;;
      *) die "up: with --real-nodes N or --simulated-nodes N" ;;
    esac ;;
  load) load "${2:?which archive?}" "${3-}" ;;
  exec) enter "${@:2}" ;;
  down) down ;;
  *)
    sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0" >&2
    exit 2 ;;
esac
