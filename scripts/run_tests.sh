# Sourced after progress.sh by the scripts that run tests. `counts` is what scripts/count_tests.py is given.

reports=$repository/build/reports
rm -rf "$reports"
mkdir -p "$reports" "$log_folder"
counts=()

run_pytest() { # run_pytest NAME ARGUMENT...: a failed test does not end the script
  local status=0
  build/venv/bin/python -m pytest -o "cache_dir=build/pytest_cache_$1" --junitxml="$reports/pytest_$1.xml" "${@:2}" ||
    status=$?
  counts+=("$reports/pytest_$1.xml" "$status")
}
