#!/usr/bin/env bash
# Runs every test that needs no GPU, after scripts/build.sh. Reports in JUnit's form are left in build/reports.
set -euo pipefail
"$(dirname "$0")/helm_tool.sh"
"$(dirname "$0")/prometheus_tool.sh"
"$(dirname "$0")/torchft.sh"
# CI tests everything; elsewhere the tests over RDMA verbs are skipped, loudly, where their machine can't be had.
"$(dirname "$0")/rdma_guest.sh" || [ "${CI:-}" != true ]
# Compilers stand in the way of tests that count seconds, so everything is compiled before the first test, but for the
# plugin that a test of the bundle compiles: the compiler's cache has that.
"$(dirname "$0")/fuzz.sh"
phase=test step_count=4
source "$(dirname "$0")/progress.sh"

reports=$repository/build/reports
rm -rf "$reports"
mkdir -p "$reports" "$log_folder"
counts=()

# Python tests that run beside the others, in a process of their own: hardly any of them counts seconds.
apart=(tests/chaos tests/fuzz tests/gpu tests/helm tests/bench/test_survival.py
  tests/bench/test_fabric_model.py tests/pytorch/test_torch_zero_setup.py tests/pytorch/test_torchft.py)
# Those that measure what links carry, who is slow or what a page costs, or emulate a machine, want both cores for
# themselves.
alone=(tests/bench/test_rig.py tests/process/test_page_cost.py tests/process/test_slow_ranks.py tests/rdma)
# Beside `apart` run first those that wait for most of their time. What computes follows: it would have half a core.
main=(tests/process)
for place in "${apart[@]}" "${alone[@]}" "${main[@]}"; do
  [ -e "$place" ] || die "$place is not there any more; correct the lists in scripts/test.sh."
done
for folder in tests/*; do
  [[ " ${apart[*]} ${alone[*]} ${main[*]} " == *" $folder "* ]] || ! compgen -G "$folder/test_*.py" > /dev/null ||
    main+=("$folder")
done
run_pytest() { # run_pytest NAME ARGUMENT...
  build/venv/bin/python -m pytest -o "cache_dir=build/pytest_cache_$1" --junitxml="$reports/pytest_$1.xml" "${@:2}"
}

begin_step "C++ tests (ctest)"
status=0
ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" --output-junit "$reports/ctest.xml" || status=$?
counts+=("$reports/ctest.xml" "$status")
end_step "done"

begin_step "Python tests (pytest), beside them those of ${apart[*]}"
set -m # a process group of its own, to be ended as a whole
run_pytest apart "${apart[@]}" > "$log_folder/pytest_apart.log" 2>&1 < /dev/null &
others=$!
set +m
# Its tests end what they have started.
end_others() {
  kill -INT -- "-$others" 2> /dev/null || return 0
  wait "$others" || true
}
trap 'end_others; end_what_was_started' EXIT
status=0
run_pytest main "${main[@]}" "${apart[@]/#/--ignore=}" "${alone[@]/#/--ignore=}" || status=$?
counts+=("$reports/pytest_main.xml" "$status")
end_step "done"

begin_step "Python tests of ${apart[*]}, begun beside the others"
tail -n +1 -f --pid="$others" "$log_folder/pytest_apart.log" # what it said and says, until it has ended
status=0
wait "$others" || status=$?
counts+=("$reports/pytest_apart.xml" "$status")
end_step "done"

begin_step "Python tests of ${alone[*]}"
status=0
run_pytest alone "${alone[@]}" || status=$?
counts+=("$reports/pytest_alone.xml" "$status")
end_step "done"

/usr/bin/python3 scripts/count_tests.py "${counts[@]}"
