#!/usr/bin/env bash
# Runs the tests that every commit has to pass, after scripts/build.sh; scripts/test_long.sh has the others. None needs a
# GPU. Reports in JUnit's form are left in build/reports.
set -euo pipefail
"$(dirname "$0")/helm_tool.sh"
"$(dirname "$0")/prometheus_tool.sh"
"$(dirname "$0")/torchft.sh"
phase=test step_count=3
source "$(dirname "$0")/progress.sh"
source scripts/run_tests.sh

# Those that measure what links carry, who is slow or what a page costs want both cores for themselves.
alone=(tests/bench/test_rig.py tests/process/test_page_cost.py tests/process/test_slow_ranks.py)
for place in "${alone[@]}"; do
  [ -e "$place" ] || die "$place is not there any more; correct the list in scripts/test.sh."
done

begin_step "C++ tests (ctest)"
status=0
ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" --output-junit "$reports/ctest.xml" || status=$?
counts+=("$reports/ctest.xml" "$status")
end_step "done"

# Most of them wait for most of their time.
begin_step "Python tests (pytest), $((jobs + 1)) at once"
run_pytest together -m "not long" -n $((jobs + 1)) --dist loadfile tests "${alone[@]/#/--ignore=}"
end_step "done"

begin_step "Python tests of ${alone[*]}"
run_pytest alone -m "not long" "${alone[@]}"
end_step "done"

/usr/bin/python3 scripts/count_tests.py "${counts[@]}"
