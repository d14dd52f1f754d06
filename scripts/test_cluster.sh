#!/usr/bin/env bash
# Installs and compiles what the cluster test needs, and runs it: tests/cluster/run.py, with the arguments given.
set -euo pipefail
phase=test-cluster step_count=2
source "$(dirname "$0")/progress.sh"
source scripts/install_debian_packages.sh

[ "$(id -u)" = 0 ] || die "a cluster's nodes need root."
needed=25
free=$(free_gib build)
[ "$free" -ge $needed ] || die "too little disk: $repository/build has $free GiB free, images and nodes need $needed GiB."
install_debian_packages scripts/debian_packages_cluster.txt
scripts/helm_tool.sh
tests/cluster/build_kubernetes.sh
begin_step "the chart on a cluster"
build/venv/bin/python tests/cluster/run.py "$@" || die "the cluster test failed: see above, and build/cluster."
end_step "done"
