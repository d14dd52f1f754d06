#!/usr/bin/env bash
# A Kubernetes on this machine alone, in namespaces of its own: nothing of it reaches the machine's network, and `down` leaves
# nothing behind. As root, with cgroup v1; build_kubernetes.sh first.
#
#   lab.sh up --real-nodes N        control plane and N nodes: kubelets and containerds, which share one network
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

die() {
  printf 'lab.sh: %s\n' "$*" >&2
  exit 1
}

is_up() { # whether the recorded process is still the one that was started
  local process started
  [ -s "$lab/process" ] && read -r process started < "$lab/process" &&
    [ "$(cut -d ' ' -f 22 "/proc/$process/stat" 2> /dev/null)" = "$started" ]
}

up() { # up simulated|real NODES
  case $lab/ in /run/* | /var/lib/* | /var/log/*) die "the lab's folder $lab would be hidden inside the lab: set SHOAL_LAB" ;; esac
  [ -s "$tools/built_from" ] || die "there is no Kubernetes yet: run tests/cluster/build_kubernetes.sh"
  [ "$1" = simulated ] || [ "$(stat -fc %T /sys/fs/cgroup)" = tmpfs ] || die "real nodes need cgroup v1; this machine has v2"
  ! is_up || die "it is up already"
  rm -rf "$running" "$lab/cgroups"
  mkdir -p "$running"
  (
    [ "$1" = simulated ] || own_cgroup "shoal-lab-$port" > "$lab/cgroups"
    exec setsid unshare --pid --mount --cgroup --fork --kill-child --mount-proc "$own_folder/lab_inside.sh" first "$1" "$2" \
      < /dev/null > "$running/first.log" 2>&1
  ) &
  disown
  local started=$SECONDS
  until [ -e "/proc/$!/stat" ]; do sleep 0.05; done
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
    enter ctr -a "/run/containerd-${node#"$running"/node}/containerd.sock" -n k8s.io images import - < "$1"
  done
}

down() {
  local process started cgroup
  if is_up; then
    read -r process started < "$lab/process"
    kill -KILL "$process"
    while is_up; do sleep 0.1; done
  fi
  rm -f "$lab/process" "$lab/kubeconfig"
  if [ -s "$lab/cgroups" ]; then
    while read -r cgroup; do
      for _ in $(seq 50); do # the kernel takes a moment to empty them
        find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || :
        [ -d "$cgroup" ] || break
        sleep 0.1
      done
      [ ! -d "$cgroup" ] || echo "lab.sh: the cgroup $cgroup could not be removed" >&2
    done < "$lab/cgroups"
    rm -f "$lab/cgroups"
  fi
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
