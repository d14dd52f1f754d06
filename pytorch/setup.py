"""Builds shoal._C against the installed torch, and puts libshoal.so into the package.

    SHOAL_LIBRARY_FILE=build/lib/libshoal.so pip install --no-build-isolation ./pytorch

Without SHOAL_LIBRARY_FILE the package is built without the library: it has to be copied to shoal/lib/ of the installed
package (as scripts/build.sh does, which compiles both at once), or SHOAL_LIBRARY must name it at run time.
"""

import os
import pathlib
import shutil

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ["shoal_library", "session", "group", "torch_sources"]


class BuildWithLibrary(BuildExtension):
    """Also copies libshoal.so to where the package's files are gathered."""

    def run(self) -> None:
        super().run()
        library = os.environ.get("SHOAL_LIBRARY_FILE")
        if library is None:
            return
        if not os.path.isfile(library):
            raise SystemExit(f"SHOAL_LIBRARY_FILE={library}: no such file. Build it first: cmake --build build")
        package = HERE / "shoal" if self.inplace else pathlib.Path(self.build_lib) / "shoal"
        (package / "lib").mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, package / "lib" / "libshoal.so")


setup(
    ext_modules=[
        CppExtension(
            "shoal._C",
            sources=[f"src/{name}.cc" for name in SOURCES],
            include_dirs=[str(HERE.parent)],
            extra_compile_args=["-std=c++20", "-O2", "-g1", "-fvisibility=hidden", "-Wall", "-Wextra"],
            extra_link_args=["-Wl,--as-needed"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary},
)
