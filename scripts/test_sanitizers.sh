#!/usr/bin/env bash
# Builds with sanitizers, in build/asan-ubsan and build/tsan, and runs the tests of kinds unit, conformance, scenario,
# sim (not with ThreadSanitizer), fuzz (the corpus) and process with them; then clang-tidy over the sources. It takes
# hours on two cores, the next time as long as the tests. All of it, or what is named:
#   scripts/test_sanitizers.sh [asan-ubsan] [tsan] [clang-tidy]
# `make test` has the time for address and undefined on a few of them (tests/fuzz/sanitized_tests.txt).
# What a sanitizer reports is in build/PRESET/reports, also of processes that a test kills, and fails the run.
set -euo pipefail
[ $# -gt 0 ] || set -- asan-ubsan tsan clang-tidy
phase=sanitizers step_count=0
for what in "$@"; do
  [ "$what" = clang-tidy ] && steps=1 || steps=3
  step_count=$((step_count + steps))
done
source "$(dirname "$0")/progress.sh"
suppressions=$repository/tests/sanitizers
failed=()

configure() { # configure PRESET
  run_logged "cmake_$1" cmake --preset "$1" || die "CMake could not configure build/$1."
}

build_with() { # build_with PRESET TARGET...
  begin_step "compile for $1 with $jobs jobs, in build/$1"
  configure "$1"
  NINJA_STATUS='    [%f/%t, %es] ' ninja -C "build/$1" -j "$jobs" "${@:2}" || die "the compilation failed: the first lines marked 'error:' above say where."
  end_step "built"
}

# A Python process with the library in it has to load the sanitizer's runtime first.
runtime_of() { # runtime_of PRESET
  case $1 in
    tsan) realpath "$(c++ -print-file-name=libtsan.so)" ;;
    *) realpath "$(c++ -print-file-name=libasan.so)" ;;
  esac
}

test_with() { # test_with PRESET
  local reports=$repository/build/$1/reports status=0 named=()
  # The simulator has one thread, so that ThreadSanitizer would only make it ten times slower.
  [ "$1" != tsan ] || named=(-LE '^sim$')
  rm -rf "$reports"
  mkdir -p "$reports"
  # A child of fork() may start threads; a report names the program. What libraries that were compiled without it read and
  # write is not looked at: it does not see how they order that.
  export TSAN_OPTIONS="suppressions=$suppressions/thread.txt ignore_noninstrumented_modules=1 log_path=$reports/report log_exe_name=1 die_after_fork=0"
  export ASAN_OPTIONS="log_path=$reports/report log_exe_name=1 detect_stack_use_after_return=1 strict_init_order=1"
  export UBSAN_OPTIONS="log_path=$reports/report log_exe_name=1 print_stacktrace=1"
  export LSAN_OPTIONS="suppressions=$suppressions/leak.txt print_suppressions=0"

  # As our programs set it (net/ucx/ucx_api.cc): hooks of UCX and of a sanitizer in the same functions crash.
  export UCX_MEM_EVENTS=n

  begin_step "C++ tests (ctest) with $1"
  ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$jobs" "${named[@]}" \
    --output-junit "$reports/ctest.xml" || status=$?
  end_step "done"

  test_processes_with "$1" || status=$?

  local found
  found=$(find "$reports" -name 'report.*' -size +0)
  if [ -n "$found" ]; then
    echo "What $1 reported, in build/$1/reports:"
    xargs head -n 60 <<< "$found"
    status=1
  fi
  [ "$status" = 0 ] || failed+=("$1")
}

test_processes_with() { # test_processes_with PRESET
  local status=0
  begin_step "process tests (pytest) with $1"
  SHOAL_BIN=$repository/build/$1/bin SHOAL_SANITIZER_RUNTIME=$(runtime_of "$1") \
    SHOAL_TEST_TIME_FACTOR=$(sed -n 's/^SHOAL_TEST_TIME_FACTOR:.*=//p' "build/$1/CMakeCache.txt") \
    build/venv/bin/python -m pytest tests/process --junitxml="$reports/pytest.xml" || status=$?
  end_step "done"
  return $status
}

look_with_clang_tidy() {
  begin_step "clang-tidy"
  # Without precompiled headers, which clang can't read. Only what is generated has to be there.
  configure dev
  run_logged generated_headers ninja -C build/dev proto/gen/{shoal/v1/{scheduler,status,state,admin},etcd/v3}.pb.h ||
    die "the control plane's messages could not be generated; see the lines above."
  scripts/clang_tidy.py --jobs "$jobs" --build build/dev || failed+=(clang-tidy)
  end_step "done"
}

for what in "$@"; do
  case $what in
    asan-ubsan | tsan)
      build_with "$what" tests/all bin/shoal-{scheduler,server,perf} bin/shoalctl lib/libshoal.so
      test_with "$what"
      ;;
    clang-tidy) look_with_clang_tidy ;;
    *) die "what is $what? Give asan-ubsan, tsan or clang-tidy, or nothing for all three." ;;
  esac
done
[ ${#failed[@]} = 0 ] || die "findings or failures with ${failed[*]}; see above."
echo "No findings with $*."
