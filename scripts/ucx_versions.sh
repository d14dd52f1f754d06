#!/usr/bin/env bash
# Puts the UCX releases of scripts/ucx_versions.txt into build/tools/ucx/VERSION, and builds Shoal's use of UCX against each
# of them in build/ucx-VERSION; against the last one also what tests/ucx_versions run. Debian's own release, which
# everything else is built against, is left alone.
set -euo pipefail
phase=ucx step_count=2
source "$(dirname "$0")/progress.sh"

suites=(ucx_transport_test transport_process_test ucx_settings_test ucx_strangers_test handshake_sockets_test
  combined_transport_test)

begin_step "UCX releases in build/tools/ucx"
mapfile -t packages < <(grep -v '^#' scripts/ucx_versions.txt)
for package in "${packages[@]}"; do
  folder=build/tools/ucx/${package#*==}
  [ "$(cat "$folder/package_installed" 2> /dev/null)" = "$package" ] && continue
  rm -rf "$folder"
  run_logged ucx_package build/venv/bin/python -m pip install --disable-pip-version-check --no-deps \
    --target "$folder" "$package" || die "pip could not install $package: no network?"
  rm -f "$folder"/libucx/lib/*.a "$folder"/libucx/lib/ucx/*.a  # most of its size
  echo "$package" > "$folder/package_installed"
done
end_step "${packages[*]}"

begin_step "the transport against each, in build/ucx-VERSION"
for package in "${packages[@]}"; do
  version=${package#*==}
  targets=(shoal_net_ucx)
  [ "$package" != "${packages[-1]}" ] || targets=("${suites[@]}")
  if ! [ -f "build/ucx-$version/build.ninja" ]; then
    run_logged "ucx_cmake_$version" cmake --preset release -B "build/ucx-$version" \
      -Ducx_ROOT="$repository/build/tools/ucx/$version/libucx" || die "CMake could not configure for UCX $version."
  fi
  run_logged "ucx_compile_$version" ninja -C "build/ucx-$version" -j "$jobs" "${targets[@]}" ||
    die "Shoal does not compile against UCX $version: the lines above say where."
done
end_step "built"
