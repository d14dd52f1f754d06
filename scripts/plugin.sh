#!/usr/bin/env bash
# Compiles the PyTorch plugin and installs the Python package `shoal` into build/venv, without libshoal.so: that is
# copied into it when it is built (scripts/build.sh), so that the two can be compiled side by side.
set -euo pipefail
phase=plugin step_count=1
source "$(dirname "$0")/progress.sh"

begin_step "Python package shoal into build/venv"
stamp=build/venv/shoal_package_installed
wanted=$(git ls-files --cached --others --exclude-standard pytorch worker/include process/mutex.h | sort |
  xargs -d '\n' sha256sum scripts/requirements.txt | sha256sum)
if [ "$(cat $stamp 2> /dev/null)" = "$wanted" ]; then
  end_step "up to date"
  exit 0
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
run_logged plugin env PATH="/usr/lib/ccache:$repository/build/venv/bin:$PATH" MAX_JOBS="$jobs" \
  CCACHE_BASEDIR="$repository" CCACHE_NOHASHDIR=1 \
  DIST_EXTRA_CONFIG="$repository/build/pytorch/setuptools.cfg" build/venv/bin/python -m pip install \
  --disable-pip-version-check --no-build-isolation --no-compile --no-deps --no-index --force-reinstall ./pytorch ||
  die "the Python package could not be built; see the lines above."
echo "$wanted" > $stamp
end_step "installed"
