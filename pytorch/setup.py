"""Builds shoal._C against the installed torch, and puts libshoal.so into the package.

    SHOAL_LIBRARY_FILE=build/lib/libshoal.so pip install --no-build-isolation ./pytorch

Without SHOAL_LIBRARY_FILE the package is built without the library: it has to be copied to shoal/lib/ of the installed
package (as scripts/build.sh does, which compiles both at once), or SHOAL_LIBRARY must name it at run time.
"""

import os
import pathlib
import runpy
import shutil
import sysconfig

from setuptools import setup
from setuptools.command.sdist import sdist

try:
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError:
    raise SystemExit(
        "error: shoal's plugin is compiled against the torch that it will run with, and this build sees none. Install "
        "shoal's wheel, which is compiled and has the programs and the library; or install torch, and then this with "
        "`pip install --no-build-isolation`"
    ) from None

HERE = pathlib.Path(__file__).resolve().parent
C_ABI = pathlib.Path("worker") / "include" / "shoal" / "worker.h"
MUTEX = pathlib.Path("process") / "mutex.h"
# The sources name each other from the root of the repository. A source distribution has what they need in a folder.
ROOT = HERE.parent if (HERE.parent / C_ABI).is_file() else HERE / "root"
PLUGIN = runpy.run_path(str(HERE / "shoal" / "plugin.py"))


class BuildWithLibrary(BuildExtension):
    """Also copies libshoal.so to where the package's files are gathered."""

    def run(self) -> None:
        _, lacking = PLUGIN["find_compiler"](sysconfig.get_path("include"))
        if lacking:
            raise SystemExit(f"error: to compile shoal's plugin needs {' and '.join(lacking)}; its wheel needs nothing")
        super().run()
        library = os.environ.get("SHOAL_LIBRARY_FILE")
        if library is None:
            return
        if not os.path.isfile(library):
            raise SystemExit(f"SHOAL_LIBRARY_FILE={library}: no such file. Build it first: cmake --build build")
        package = HERE / "shoal" if self.inplace else pathlib.Path(self.build_lib) / "shoal"
        (package / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, package / "lib" / "libshoal.so")


class SourcesWithRoot(sdist):
    """Adds the folder that stands for the root of the repository."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        root = pathlib.Path(base_dir) / "root"
        sources = [path.relative_to(ROOT) for path in (ROOT / "pytorch" / "src").iterdir()]
        for path in [C_ABI, MUTEX, *sources]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, root / path)


setup(
    ext_modules=[
        CppExtension(
            "shoal._C",
            sources=[f"src/{name}.cc" for name in PLUGIN["UNITS"]],
            include_dirs=[str(ROOT)],
            extra_compile_args=[
                "-std=c++20",
                "-O2",
                "-g1",
                "-fvisibility=hidden",
                "-Wall",
                "-Wextra",
                *PLUGIN["COMPILE_MEMORY"],
            ],
            extra_link_args=["-Wl,--as-needed"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary, "sdist": SourcesWithRoot},
)
