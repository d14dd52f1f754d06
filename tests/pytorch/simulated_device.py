"""Compiles and loads torch's CUDA devices on the simulated driver (simulated_torch_cuda.cc, tests/simulated_cuda).

A process that has called `load` has tensors that torch takes for CUDA's, and no others of them.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sysconfig
import types
from collections.abc import Iterator

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(__file__).with_name("simulated_torch_cuda.cc")
DRIVER = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")).parent / "tests" / "libsimulated_cuda.so"
NCCL = DRIVER.with_name("libsimulated_nccl.so")
LIBRARIES = {"SHOAL_CUDA_LIBRARY": str(DRIVER), "SHOAL_NCCL_LIBRARY": str(NCCL)}
CCACHE = "/usr/lib/ccache"


def build() -> pathlib.Path:
    """Compiles the extension unless it is there: build/tests/simulated_torch_cuda-HASH.so."""
    # Imported here: it looks for GPUs, and a process that has done so has threads and can't change its namespaces.
    from torch.utils import cpp_extension

    text = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = DRIVER.with_name(f"simulated_torch_cuda-{text}.so")
    if not library.is_file():
        includes = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(
            ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra",
             f"-I{ROOT}", *(f"-isystem{folder}" for folder in includes), str(SOURCE), "-o", str(made),
             *(f"-L{folder}" for folder in cpp_extension.library_paths()), "-lc10", "-ltorch_cpu", "-ltorch_python"],
            check=True, env=os.environ | {"PATH": f"{CCACHE}:{os.environ['PATH']}"},
        )  # fmt: skip
        made.rename(library)
    return library


@functools.cache
def load() -> types.ModuleType:
    name = "simulated_torch_cuda"
    spec = importlib.util.spec_from_file_location(name, build())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.use(str(DRIVER))
    return module


@contextlib.contextmanager
def stream(number: int, device: int = 0) -> Iterator[None]:
    """Makes it the current stream of this thread."""
    before = load().set_stream(device, number)
    try:
        yield
    finally:
        load().set_stream(device, before)
