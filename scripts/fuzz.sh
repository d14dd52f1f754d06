#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with clang and sanitizers, in build/fuzz, and in the same build the tests that
# tests/fuzz/sanitized_tests.txt names. With the name of a fuzzer and a number of seconds it also lets it search for so
# long, from its committed corpus on: scripts/fuzz.sh server_machine_fuzz 600
# What it finds is left in build/fuzz/found; scripts/fuzz.sh server_machine_fuzz FILE runs one input again.
set -euo pipefail
phase=fuzz step_count=1
source "$(dirname "$0")/progress.sh"

mapfile -t tests < <(grep -v '^#' tests/fuzz/sanitized_tests.txt)
targets=(control_messages_fuzz flight_record_fuzz frame_fuzz record_reader_fuzz server_machine_fuzz tcp_handshake_fuzz
  "${tests[@]}")

# Tests run for seconds, so that the compiler counts; a search is for executions.
folder=build/fuzz optimization=-O0
[ $# = 0 ] || folder=build/fuzz_search optimization=-O1 targets=("$1")

begin_step "fuzzers and tests with sanitizers, with clang, in $folder"
if ! [ -f $folder/build.ninja ]; then
  rm -rf $folder
  run_logged fuzz_cmake cmake --preset fuzz -B $folder -D SHOAL_SANITIZED_OPTIMIZATION=$optimization ||
    die "CMake could not configure the fuzzers: is clang-19 here?"
fi
run_logged fuzz_compile ninja -C $folder -j "$jobs" "${targets[@]}" || die "the fuzzers could not be compiled."
end_step "built"
[ $# -gt 0 ] || exit 0

target=$1 what=${2:-60}
mkdir -p "build/fuzz/corpus/$target" build/fuzz/found
if [ -f "$what" ]; then
  exec "$folder/tests/$target" "$what"
fi
# What is new goes into the first folder.
exec "$folder/tests/$target" -max_total_time="$what" -artifact_prefix="build/fuzz/found/${target}_" \
  "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target"
