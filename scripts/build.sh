#!/usr/bin/env bash
# Builds programs in build/bin, libshoal.so in build/lib, the Python package `shoal` in build/venv, and installs what that
# needs. `scripts/build.sh demo` does it for what the demo runs alone; `scripts/build.sh` for everything, tests too.
set -euo pipefail
part=${1:-all}
phase=build step_count=5
source "$(dirname "$0")/progress.sh"
source scripts/install_debian_packages.sh
source scripts/parts.sh

# Fetching PyTorch waits for the network and the plugin is one long source, so both go on beside the compilation, and
# beside the installation of packages if they need none of those; not where memory carries no further compiler.
can_start_python() {
  dpkg-query -W -f='${db:Status-Status}\n' build-essential python3-dev python3-venv 2> /dev/null |
    grep -cx installed | grep -qx 3
}

start_python() {
  python_log=$log_folder/python.log
  mkdir -p "$log_folder"
  set -m # a process group of its own, to be ended as a whole
  { scripts/python_environment.sh "${python_lists[@]}" && scripts/plugin.sh; } > "$python_log" 2>&1 < /dev/null &
  python=$!
  set +m
  to_end+=("-$python")
  [ $((memory_gib / 2)) -gt "$jobs" ] || wait "$python" || true
}

configure() {
  begin_step "configure with CMake"
  local tests=ON
  [ "$part" != demo ] || tests=OFF
  if [ -f build/build.ninja ] && grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$repository" build/CMakeCache.txt; then
    if [ $tests = OFF ] || grep -qx 'SHOAL_BUILD_TESTS:BOOL=ON' build/CMakeCache.txt; then
      end_step "done before; Ninja runs CMake again where needed"
      return
    fi
  else
    rm -rf build/CMakeCache.txt build/CMakeFiles
  fi
  run_logged cmake cmake --preset release -D SHOAL_BUILD_TESTS=$tests || die "CMake could not configure the build." \
    "A package that is too old or missing? ${debian_lists[*]} list what it needs."
  end_step "configured"
}

compile() {
  begin_step "compile with $jobs jobs"
  NINJA_STATUS='    [%f/%t, %es] ' ninja -C build -j "$jobs" "${targets[@]}" ||
    die "the compilation failed: the first lines marked 'error:' above say where."
  end_step "programs in build/bin, library in build/lib"
}

await_python() {
  begin_step "Python environment and package shoal, begun beside the compilation"
  tail -n +1 -f --pid="$python" "$python_log" # what it said and says, until it has ended
  wait "$python" || exit 1
  to_end=()
  end_step "in build/venv"
}

# Renamed into its place: a process that has the old one loaded keeps it.
install_library() {
  begin_step "libshoal.so into the Python package"
  local folder
  folder=$(echo build/venv/lib/python3.*/site-packages/shoal)/lib
  if cmp -s build/lib/libshoal.so "$folder/libshoal.so"; then
    end_step "up to date"
    return
  fi
  mkdir -p "$folder"
  cp build/lib/libshoal.so "$folder/libshoal.so.new"
  mv "$folder/libshoal.so.new" "$folder/libshoal.so"
  end_step "installed"
}

python=
! can_start_python || start_python
install_debian_packages "${debian_lists[@]}"
[ -n "$python" ] || start_python
configure
compile
await_python
install_library
