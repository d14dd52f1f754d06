"""The source distribution of the Python package has all that its sources include, a wheel is built from it alone and
works, and the package says its types."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable

import pytest
import torch.utils.cpp_extension
from signatures import arguments_of
from simulated_device import CCACHE
from torch_cluster import TORCHRUN, clean_environment

import shoal._C
from shoal import membership

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import os, torch, torch.distributed as dist, shoal
assert shoal.__file__.startswith(os.environ["PYTHONPATH"]), shoal.__file__
dist.init_process_group("shoal")
tensor = torch.ones(1000)
dist.all_reduce(tensor)
assert (tensor == dist.get_world_size()).all()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("package")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", folder]
    subprocess.run(command, cwd=ROOT / "pytorch", check=True, capture_output=True, timeout=120)
    (archive,) = folder.glob("shoal-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def test_a_source_distribution_has_every_source(unpacked):
    def sources(folder: pathlib.Path) -> set[str]:
        return {path.name for path in folder.iterdir() if path.suffix in (".cc", ".h")}

    compiled = {path.name for path in (unpacked / "src").iterdir()}
    included = re.findall(r'#include "pytorch/src/(.*\.cc)"', (unpacked / "src" / "torch_sources.cc").read_text())
    assert compiled | set(included) == {name for name in sources(ROOT / "pytorch" / "src") if name.endswith(".cc")}
    assert sources(unpacked / "root" / "pytorch" / "src") == sources(ROOT / "pytorch" / "src")


def test_a_source_distribution_has_every_header(unpacked):
    for source in sorted((unpacked / "src").glob("*.cc")):
        folders = [unpacked / "root", *torch.utils.cpp_extension.include_paths(), sysconfig.get_path("include")]
        command = ["g++", "-std=c++20", "-M", *(f"-I{folder}" for folder in folders), source]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr
        used = [pathlib.Path(path) for path in result.stdout.replace("\\\n", " ").split() if str(ROOT) in path]
        # The environment with torch lies in build/.
        own = [str(path) for path in used if not path.is_relative_to(ROOT / "build")]
        assert not own, f"{source.name} uses files of the repository: {own}"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_wheel_is_built_from_a_source_distribution_alone(unpacked, tmp_path):
    # The compiler's cache finds what it compiled elsewhere when paths below this folder do not count.
    cache = {"PATH": f"{CCACHE}:{os.environ['PATH']}", "CCACHE_BASEDIR": str(unpacked), "CCACHE_NOHASHDIR": "1"}
    options = ["-q", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", tmp_path, unpacked]
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options], env=clean_environment(**cache), capture_output=True,
        text=True, timeout=500, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("shoal-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = clean_environment(PYTHONPATH=str(tmp_path / "site"), SHOAL_LIBRARY=membership.library_path())
    run = subprocess.run(
        [*TORCHRUN, "--nproc-per-node", "2", script], env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def refused(unpacked: pathlib.Path, prelude: str, **environment: str) -> str:
    script = f"import runpy, sys; {prelude}; sys.argv = ['setup.py', '-q', 'build_ext']; runpy.run_path('setup.py')"
    done = subprocess.run([sys.executable, "-c", script], cwd=unpacked, env=clean_environment(**environment),
                          capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 1
    return done.stderr


def test_a_build_that_sees_no_torch_says_what_to_install(unpacked):
    said = refused(unpacked, "sys.modules['torch'] = None")
    assert said.startswith("error: ") and "Install shoal's wheel" in said and "--no-build-isolation" in said


def test_a_build_without_a_compiler_says_what_to_install(unpacked):
    said = refused(unpacked, "pass", PATH="/nonexistent")
    assert said.splitlines()[-1].startswith("error: ") and "a C++ compiler (Debian, Ubuntu: g++)" in said


def test_a_source_distribution_has_types(unpacked):
    assert (unpacked / "shoal" / "py.typed").is_file()
    assert "class GroupOptions" in (unpacked / "shoal" / "_C.pyi").read_text(encoding="utf-8")


def told_arguments(function: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in function.args.args]
    keywords = [argument.arg for argument in function.args.kwonlyargs]
    rest = [f"**{function.args.kwarg.arg}"] if function.args.kwarg else []
    return [*names, *(["*"] if keywords else []), *keywords, *rest]


def real_arguments(function: Callable) -> list[str]:
    """pybind says them in a function's text: "name(argument: type, *, another: type[one, two]) -> type"."""
    signature = function.__doc__.splitlines()[0]
    return [name.partition(":")[0].strip() for name in arguments_of(signature[signature.index("(") + 1 :])]


def differences(where: str, told: list[ast.stmt], real: object) -> list[str]:
    """Of what the stub tells about a module or class, and what there is."""
    found, names = [], set()
    for statement in told:
        if isinstance(statement, ast.AnnAssign):
            names.add(statement.target.id)
        elif isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
            names.add(statement.name)
            member = getattr(real, statement.name, None)
            if isinstance(statement, ast.ClassDef):
                found += differences(f"{where}.{statement.name}", statement.body, member)
            elif statement.decorator_list:
                found += [] if isinstance(member, property) else [f"{where}.{statement.name} is no property"]
            elif member is None or told_arguments(statement) != real_arguments(member):
                has = None if member is None else real_arguments(member)
                found.append(f"{where}.{statement.name}: {told_arguments(statement)} in the stub, in truth {has}")
    exist = {name for name in vars(real) if not name.startswith("_")}
    return found + [f"{where}.{name}" for name in exist ^ {name for name in names if not name.startswith("_")}]


def test_the_types_say_what_the_module_has():
    stub = ast.parse((ROOT / "pytorch" / "shoal" / "_C.pyi").read_text(encoding="utf-8"))
    assert differences("_C", stub.body, shoal._C) == []
