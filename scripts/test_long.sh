#!/usr/bin/env bash
# Runs what searches, or proves beyond what every commit needs (pytest's marker `long`), one test after the other, and
# writes the page tests/results/test_long.md. After scripts/build.sh; as root.
set -euo pipefail
"$(dirname "$0")/helm_tool.sh"
"$(dirname "$0")/torchft.sh"
"$(dirname "$0")/rdma_guest.sh"
# Compilers stand in the way of tests that count seconds, so everything is compiled before the first test.
"$(dirname "$0")/fuzz.sh"
phase=test-long step_count=1
source "$(dirname "$0")/progress.sh"
source scripts/run_tests.sh

begin_step "Python tests (pytest) with the marker 'long'"
run_pytest long -m long tests
end_step "done"

build/venv/bin/python scripts/count_tests.py --page tests/results/test_long.md "${counts[@]}"
