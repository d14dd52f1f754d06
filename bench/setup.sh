#!/usr/bin/env bash
# Installs the contenders that Shoal is measured against and SimGrid, where they are missing, and builds what needs them.
set -euo pipefail
phase=bench step_count=3
source "$(dirname "$0")/../scripts/progress.sh"
source scripts/install_debian_packages.sh

install_debian_packages bench/debian_packages.txt

begin_step "OpenMPI's part of the measurements"
source=bench/contenders/open_mpi_rank.cc program=build/bench/open_mpi_rank
if [ "$program" -nt "$source" ]; then
  end_step "up to date"
else
  mkdir -p build/bench
  # Without OpenMPI's own C++ interface, which is not used and does not compile without warnings.
  run_logged open_mpi_rank mpicxx -O2 -std=c++20 -Wall -Wextra -DOMPI_SKIP_MPICXX -o "$program" "$source" ||
    die "mpicxx could not compile $source; see the lines above."
  end_step "built"
fi

begin_step "the scale model"
run_logged fabric_model_cmake cmake build || die "CMake could not configure the build in build/: run make build first."
run_logged fabric_model ninja -C build fabric_model || die "fabric_model could not be compiled; see the lines above."
end_step "built"
