#!/usr/bin/env bash
# Builds for 64-bit Arm on another processor, in build/arm: the library, the programs, and the tests that
# tests/arm/emulated_tests.txt names. The libraries are Debian's for arm64, unpacked in build/tools/arm_root from the
# servers of this machine's apt. It needs the packages of scripts/debian_packages_long.txt.
#   scripts/arm.sh [TARGET...]     such as: scripts/arm.sh core_test && ctest --preset arm -R core_test
set -euo pipefail
phase=arm step_count=2
source "$(dirname "$0")/progress.sh"
root=build/tools/arm_root
recipe=$(cat scripts/arm.sh scripts/debian_packages.txt | sha256sum | cut -c 1-16)

# Unpacked, never run, so it needs nothing of this machine but a place. As in scripts/bare_root.sh.
make_root() {
  local sources=/etc/apt/sources.list.d/debian.sources libraries settings=build/tools/arm_apt_settings
  [ -f $sources ] || sources=/etc/apt/sources.list
  apt-config dump | grep -E '^Acquire::(https?|Check)' > $settings || :
  libraries=$(sed -n '/^# Libraries$/,/^# The/{/^#/!p}' scripts/debian_packages.txt | paste -sd,)
  rm -rf $root.new
  mmdebstrap --variant=extract --architectures=arm64 --aptopt=$settings \
    --include="libc6-dev,libgmock-dev,libgtest-dev,libstdc++6,$libraries" \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" $root.new $sources || return
  # Links from / lead out of it.
  (cd $root.new && find lib usr -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do
    ln -snf "$(realpath -ms --relative-to="${link%/*}" ".$target")" "$link" || exit
  done) || return
  # Of the programs that a build runs, CMake looks for this one among the libraries.
  ln -sf "$(command -v grpc_cpp_plugin)" $root.new/usr/bin/grpc_cpp_plugin || return
  echo "$recipe" > $root.new/recipe
  rm -rf $root
  mv $root.new $root
}

begin_step "Debian's libraries for arm64, in $root"
if [ "$(cat $root/recipe 2> /dev/null)" = "$recipe" ]; then
  end_step "up to date"
else
  for program in aarch64-linux-gnu-g++ qemu-aarch64-static mmdebstrap; do
    command -v $program > /dev/null || die "no $program here." \
      "Have an administrator run: apt-get install g++-aarch64-linux-gnu qemu-user-static mmdebstrap"
  done
  mkdir -p build/tools
  run_logged arm_root make_root ||
    die "the libraries for arm64 could not be had: do apt's servers have that architecture?"
  end_step "unpacked"
fi

begin_step "compile in build/arm with $jobs jobs"
if ! [ -f build/arm/build.ninja ]; then
  rm -rf build/arm
  run_logged arm_cmake cmake --preset arm || die "CMake could not configure the build for Arm."
fi
mapfile -t targets < <(grep -v '^#' tests/arm/emulated_tests.txt)
targets+=(shoal shoal-scheduler shoal-server shoalctl all_reduce)
[ $# = 0 ] || targets=("$@")
run_logged arm_compile ninja -C build/arm -j "$jobs" "${targets[@]}" || die "the compilation for Arm failed."
end_step "built"
