"""Finds the compiled module shoal._C that fits the torch and the Python that are here.

A package that was built for one torch has one beside this file, and Python takes that. A wheel (scripts/wheel.py) has
one for each version of torch and of Python that it was made for, in `plugins/`, and what it takes to compile another:
the first process that needs it does that, and keeps it in the user's cache.

Needs no torch to be imported: scripts/wheel.py compiles with it for any torch.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import types
from collections.abc import Iterator

PACKAGE = pathlib.Path(__file__).resolve().parent
MODULE = "shoal._C"
UNITS = ("shoal_library", "session", "group", "torch_sources")
# GCC looks for memory that it could use again only when it has taken a GiB: it is done in six sevenths of the time.
COMPILE_MEMORY = ("--param=ggc-min-heapsize=1048576",)
FLAGS = ("-std=c++20", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-DTORCH_EXTENSION_NAME=_C",
         "-DTORCH_API_INCLUDE_EXTENSION_H", *COMPILE_MEMORY)  # fmt: skip
TORCH_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")


def python_abi() -> str:
    """Such as cpython-311-x86_64-linux-gnu; a Python without the global lock has another one."""
    return sysconfig.get_config_var("SOABI")


def fitting_name(torch_version: str, abi: str) -> str | None:
    """Of the plugin's folder. Releases of torch that differ in the last number alone have one ABI; what is no release
    (a nightly, a build of one's own) may have any, so no plugin is known to fit.

    >>> fitting_name("2.15.0+cu132", "cpython-311-x86_64-linux-gnu")
    'torch-2.15-cpython-311-x86_64-linux-gnu'
    """
    release = re.fullmatch(r"(\d+\.\d+)\.\d+(\+.*)?", torch_version)
    return f"torch-{release.group(1)}-{abi}" if release else None


class NoPluginError(ImportError):
    """Says what to do."""


def load() -> types.ModuleType:
    """Raises NoPluginError. May compile for a minute or two."""
    import torch  # its libraries have to be there first

    name = fitting_name(torch.__version__, python_abi())
    path = PACKAGE / "plugins" / name / "_C.so" if name else None
    hint = ""
    if path is None or not path.is_file():
        path = _compile_once(torch.__version__, pathlib.Path(torch.__file__).parent)
        hint = ". If it is left over from another machine, remove it, and it is compiled again"
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(MODULE, path, loader=loader))
        loader.exec_module(module)
    except ImportError as error:
        text = f"shoal's plugin {path} does not load with torch {torch.__version__}: {error}{hint}"
        raise NoPluginError(text) from error
    return module


def compile_plugin(
    sources: pathlib.Path, torch_include: pathlib.Path, torch_lib: pathlib.Path, python_include: str,
    target: pathlib.Path, compiler: list[str],
) -> None:  # fmt: skip
    """Compiles and links. Raises RuntimeError with what the compiler said."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folders = [sources, torch_include, torch_include / "torch" / "csrc" / "api" / "include", python_include]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="compile-") as temporary:

        def compile_unit(unit: str) -> str:
            made = f"{temporary}/{unit}.o"
            source = sources / "pytorch" / "src" / f"{unit}.cc"
            _run([*compiler, *FLAGS, "-isystem", folders[1], "-isystem", folders[2], "-isystem", folders[3],
                  f"-I{folders[0]}", "-c", source, "-o", made])  # fmt: skip
            return made

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_unit, UNITS))
        made = f"{temporary}/_C.so"
        libraries = [f"-l{name}" for name in TORCH_LIBRARIES]
        # All of them are needed, whatever the linker finds in them: scripts/wheel.py has empty ones.
        _run([*compiler, "-shared", "-Wl,--no-as-needed", *objects, f"-L{torch_lib}", *libraries, "-s", "-o", made])
        os.replace(made, target)


def _run(command: list[object]) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr.strip()[-2000:]}")


def _compile_once(torch_version: str, torch_folder: pathlib.Path) -> pathlib.Path:
    """The compiled plugin in the user's cache. Of several processes one compiles, and the others wait."""
    sources = PACKAGE / "source"
    have = sorted(folder.name for folder in (PACKAGE / "plugins").glob("*") if (folder / "_C.so").is_file())
    without = (
        f"this package of shoal has no compiled plugin for torch {torch_version} and Python {sys.version.split()[0]}"
        f" (it has {', '.join(have) or 'none'})"
    )
    if not sources.is_dir():
        raise NoPluginError(f"{without}, nor its sources: install shoal's wheel, or build it as its README says")
    try:
        # The whole version of torch: a plugin of one's own is for nothing but what is here.
        folder = _cache() / f"torch-{torch_version}-{python_abi()}-{_digest(sources)}"
        target = folder / "_C.so"
        if target.is_file():
            return target
        include = sysconfig.get_path("include")
        compiler = _compiler(without, include)
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "lock"):
            if not target.is_file():
                for left_over in folder.glob("compile-*"):  # of a process that was killed
                    shutil.rmtree(left_over)
                _say(f"{without}; compiling it once, which takes a minute or two, into {folder}")
                compile_plugin(sources, torch_folder / "include", torch_folder / "lib", include, target, compiler)
    except OSError as error:
        raise NoPluginError(f"{without}, and it can't be kept: {error}. XDG_CACHE_HOME names another folder") from None
    except RuntimeError as error:
        raise NoPluginError(f"{without}, and it does not compile: {error}") from None
    return target


def _cache() -> pathlib.Path:
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return pathlib.Path(folder) / "shoal"
    try:
        return pathlib.Path.home() / ".cache" / "shoal"
    except RuntimeError:
        raise OSError("this user has no home") from None


def find_compiler(include: str) -> tuple[list[str], list[str]]:
    """The words by which the C++ compiler is called, and what is lacking of what it takes to compile the plugin.
    `include`: the folder of Python's headers."""
    named = os.environ.get("CXX", "")
    compiler = shlex.split(named) or [name for name in ("c++", "g++") if shutil.which(name)][:1]
    lacking = []
    if not compiler or shutil.which(compiler[0]) is None:
        lacking.append(f"CXX={named}, which is not there" if named else "a C++ compiler (Debian, Ubuntu: g++)")
    if not pathlib.Path(include, "Python.h").is_file():
        lacking.append(f"Python's headers in {include} (Debian, Ubuntu: python3-dev)")
    return compiler, lacking


def _compiler(without: str, include: str) -> list[str]:
    compiler, lacking = find_compiler(include)
    if lacking:
        raise NoPluginError(
            f"{without}, and to compile it here, which is done once, needs {' and '.join(lacking)}. Install that, or a"
            " torch that the package has a plugin for"
        )
    return compiler


def _say(text: str) -> None:
    print(f"shoal: {text}", file=sys.stderr, flush=True)


def _digest(folder: pathlib.Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another process, which compiles the plugin into {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
