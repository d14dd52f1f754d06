#!/usr/bin/env python3
"""Packs what a machine needs that has torch, perhaps GPUs, and no network: build/dist/shoal-VERSION-....tar.xz.

It has the programs, libshoal.so and the tests of devices with the libraries that they need beyond those of every
Linux (glibc, and libstdc++, of which a process must not have two), the plugin's sources, its tests, the checks of
docs/gpu_checks.md and the examples. Paths are those of a checkout, so that the same commands work. Without UCX, which
fits the drivers of one machine: for RDMA the machine's own is loaded.

Usage: scripts/dist.py [FOLDER]      after `make build`; `make dist` does both. FOLDER: instead of build/dist
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
MOST_MIB = 60
PROGRAMS = ("bin/shoal-scheduler", "bin/shoal-server", "bin/shoal-perf", "bin/shoalctl")
TESTS = (
    "tests/cuda_stager_test",
    "tests/cuda_driver_test",
    "tests/worker_c_api_device_test",
    "tests/worker_c_api_node_device_test",
)
LIBRARIES = ("lib/libshoal.so",)
# Of every Linux: glibc's, and those of GCC.
ON_EVERY_LINUX = re.compile(
    r"^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|nsl|anl|stdc\+\+|gcc_s|mvec))\.so(\.\d+)*$"
)
SOURCES = (
    "pytorch", "worker/include", "process/mutex.h", "tests/conftest.py", "tests/hosts", "tests/pytorch", "tests/gpu",
    "examples", "bench/gpu", "docs/gpu_checks.md", "pytest.ini",
)  # fmt: skip
README = """# Shoal {version}

Programs, library and plugin sources for a machine without a network. To compile the plugin against the torch of
`python3` and to run all checks that this machine can run:

    python3 tests/gpu/run_checks.py

The result is in `build/gpu_checks/`. `docs/gpu_checks.md` explains the checks. To use the plugin afterwards:

    export PYTHONPATH=$PWD/build/site SHOAL_LIBRARY=$PWD/build/lib/libshoal.so SHOAL_BIN=$PWD/build/bin

It needs x86-64, glibc {glibc} and the libstdc++ of GCC 12, or newer ones; for the plugin a C++ compiler.
"""


def version() -> str:
    text = (ROOT / "core/version.h").read_text(encoding="utf-8")
    return re.search(r'kSoftwareVersion(?:\[\])? = "([^"]+)"', text).group(1)


def run(*command: object, **more: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}: {(done.stdout + done.stderr).strip()[-4000:]}")
    return done.stdout


def needed_libraries(file: pathlib.Path) -> dict[str, pathlib.Path]:
    """By the names under which they are looked for, those of the libraries that it needs included."""
    found = {}
    for line in run("ldd", file).splitlines():
        name, _, path = line.strip().partition(" => ")
        if path.startswith("not found"):
            sys.exit(f"error: {file} needs {name}, which is not there: run `make build`")
        if path and not ON_EVERY_LINUX.match(name):
            found[name] = pathlib.Path(path.split(" (")[0]).resolve()
    return found


def place(source: pathlib.Path, target: pathlib.Path, search_path: str) -> None:
    """Without symbols, and looking for its libraries beside itself before it looks anywhere else."""
    target.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", target, source)
    run("patchelf", "--force-rpath", "--set-rpath", search_path, target)
    target.chmod(0o755)


def tracked(path: str) -> list[str]:
    return run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "--", path).splitlines()


def gather(folder: pathlib.Path) -> None:
    libraries: dict[str, pathlib.Path] = {}
    for name in (*PROGRAMS, *TESTS, *LIBRARIES):
        source = BUILD / name
        if not source.is_file():
            sys.exit(f"error: build/{name} is missing: run `make build`")
        place(source, folder / "build" / name, "$ORIGIN" if name in LIBRARIES else "$ORIGIN/../lib")
        libraries |= needed_libraries(source)
    for name, source in libraries.items():
        if name not in {pathlib.Path(own).name for own in LIBRARIES}:
            place(source, folder / "build/lib" / name, "$ORIGIN")
    for name in [name for path in SOURCES for name in tracked(path)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    glibc = ".".join(platform.libc_ver()[1].split(".")[:2])
    (folder / "README.md").write_text(README.format(version=version(), glibc=glibc), encoding="utf-8")


def main() -> int:
    if shutil.which("patchelf") is None:
        sys.exit("error: patchelf is missing: run `make setup`")
    name = f"shoal-{version()}-linux-{platform.machine()}"
    dist = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "dist"
    shutil.rmtree(dist / name, ignore_errors=True)
    gather(dist / name)
    bundle = dist / f"{name}.tar.xz"
    with tarfile.open(bundle, "w:xz", preset=6) as archive:
        archive.add(dist / name, arcname=name)
    size_mib = bundle.stat().st_size / 2**20
    unpacked_mib = sum(path.stat().st_size for path in (dist / name).rglob("*") if path.is_file()) / 2**20
    print(f"{os.path.relpath(bundle)}: {size_mib:.1f} MiB, {unpacked_mib:.0f} MiB unpacked")
    if size_mib > MOST_MIB:
        sys.exit(f"error: it has more than {MOST_MIB} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
