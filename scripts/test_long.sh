#!/usr/bin/env bash
# Runs what searches, or proves beyond what every commit needs (pytest's marker `long`), one test after the other, and
# writes the page tests/results/test_long.md. After scripts/build.sh; as root.
set -euo pipefail
phase=test-long step_count=2
source "$(dirname "$0")/progress.sh"
source scripts/install_debian_packages.sh
source scripts/run_tests.sh
install_debian_packages scripts/debian_packages_long.txt
scripts/torchft.sh
scripts/rdma_guest.sh
# Compilers stand in the way of tests that count seconds, so everything is compiled before the first test.
scripts/fuzz.sh

begin_step "Python tests (pytest) with the marker 'long'"
run_pytest long -m long tests
end_step "done"

build/venv/bin/python scripts/count_tests.py --page tests/results/test_long.md "${counts[@]}"
