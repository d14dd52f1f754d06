#!/usr/bin/env bash
# Builds everything: programs in build/bin, libshoal.so in build/lib, the Python package `shoal` in build/venv.
set -euo pipefail
"$(dirname "$0")/setup.sh"
phase=build step_count=3
source "$(dirname "$0")/progress.sh"

configure() {
  begin_step "configure with CMake"
  if [ -f build/build.ninja ] && grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$repository" build/CMakeCache.txt; then
    end_step "done before; Ninja runs CMake again where needed"
    return
  fi
  rm -rf build/CMakeCache.txt build/CMakeFiles
  run_logged cmake cmake --preset release || die "CMake could not configure the build." \
    "A package that is too old or missing? scripts/debian_packages.txt lists what it needs."
  end_step "configured"
}

compile() {
  begin_step "compile with $jobs jobs"
  NINJA_STATUS='    [%f/%t, %es] ' ninja -C build -j "$jobs" ||
    die "the compilation failed: the first lines marked 'error:' above say where."
  end_step "programs in build/bin, library in build/lib"
}

# The package is installed again when its sources, the library inside it or the header it is compiled against change.
install_python_package() {
  begin_step "Python package shoal into build/venv"
  local library=$repository/build/lib/libshoal.so stamp=build/venv/shoal_package_installed wanted
  wanted=$(git ls-files --cached --others --exclude-standard pytorch worker/include | sort |
    xargs -d '\n' sha256sum "$library" scripts/requirements.txt | sha256sum)
  if [ "$(cat $stamp 2> /dev/null)" = "$wanted" ]; then
    end_step "up to date"
    return
  fi
  # setuptools would leave its work in pytorch/; this sends it to build/, where objects also wait for the next build.
  mkdir -p build/pytorch
  rm -rf build/pytorch/lib* build/pytorch/bdist*
  cat > build/pytorch/setuptools.cfg << END
[build]
build_base = $repository/build/pytorch
[egg_info]
egg_base = $repository/build/pytorch
END
  run_logged python_package env PATH="/usr/lib/ccache:$repository/build/venv/bin:$PATH" MAX_JOBS="$jobs" \
    DIST_EXTRA_CONFIG="$repository/build/pytorch/setuptools.cfg" SHOAL_LIBRARY_FILE="$library" \
    build/venv/bin/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps --no-index \
    --force-reinstall ./pytorch || die "the Python package could not be built; see the lines above."
  echo "$wanted" > $stamp
  end_step "installed"
}

configure
compile
install_python_package
