#!/usr/bin/env bash
# Runs every test that needs no GPU, after scripts/build.sh. Reports in JUnit's form are left in build/reports.
set -euo pipefail
"$(dirname "$0")/helm_tool.sh"
# CI tests everything; elsewhere the tests over RDMA verbs are skipped, loudly, where their machine can't be had.
"$(dirname "$0")/rdma_guest.sh" || [ "${CI:-}" != true ]
phase=test step_count=2
source "$(dirname "$0")/progress.sh"

reports=$repository/build/reports
rm -rf "$reports"
mkdir -p "$reports"
ctest_status=0
pytest_status=0

begin_step "C++ tests (ctest)"
ctest --test-dir build --output-on-failure --no-tests=error -j "$jobs" --output-junit "$reports/ctest.xml" ||
  ctest_status=$?
end_step "done"

begin_step "Python tests (pytest)"
build/venv/bin/python -m pytest --junitxml="$reports/pytest.xml" || pytest_status=$?
end_step "done"

/usr/bin/python3 scripts/count_tests.py "$reports/ctest.xml" $ctest_status "$reports/pytest.xml" $pytest_status
