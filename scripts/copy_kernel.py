#!/usr/bin/env python3
"""Compiles the kernels for CUDA devices to PTX and puts it into sources that are committed, so that nothing of this is
needed to build the worker. Run it after a change of worker/device/copy_kernel.h or of the kernels of the tests.
tests/pytorch/test_copy_kernel.py checks that the committed text is that of the sources.

    scripts/copy_kernel.py [--check]
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMPILER = "clang-19"
COLUMNS = 118
# Devices from 2017 on (Volta), the oldest whose memory model has what the kernel needs. Drivers compile it for newer
# ones. Loops are unrolled by hand where that gains something.
OPTIONS = ["--cuda-gpu-arch=sm_70", "--cuda-feature=+ptx63", "-std=c++20", "-O3", "-fno-unroll-loops"]

COPY_KERNEL = """// Made by scripts/copy_kernel.py from copy_kernel.cu. Do not change it by hand.
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {

const char kCopyKernelPtx[] = R"ptx(
@
)ptx";

}  // namespace shoal
"""
TEST_KERNELS = """// Made by scripts/copy_kernel.py from program_kernels.cu. Do not change it by hand.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_
#define SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_

namespace shoal {

inline constexpr char kProgramKernelsPtx[] = R"ptx(
@
)ptx";

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATED_CUDA_PROGRAM_KERNELS_PTX_H_
"""
# Each source, the file that is made of it, and the text around the PTX.
KERNELS = (
    ("worker/device/copy_kernel.cu", "worker/device/copy_kernel_ptx.cc", COPY_KERNEL),
    ("tests/simulated_cuda/program_kernels.cu", "tests/simulated_cuda/program_kernels_ptx.h", TEST_KERNELS),
)


def compile_kernels(source: str) -> str:
    command = [COMPILER, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", *OPTIONS]
    done = subprocess.run(
        [*command, f"-I{ROOT}", "-S", "-o", "-", str(ROOT / source)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{source} does not compile:\n{done.stderr}")
    return done.stdout


def without_comments(ptx: str) -> list[str]:
    return [text for line in ptx.splitlines() if (text := " ".join(re.sub(r"//.*", "", line).split()))]


def packed(statements: list[str]) -> str:
    """Several statements a line. What is before the kernel stays as it is."""
    lines: list[str] = []
    in_kernel = False
    for statement in statements:
        if in_kernel and len(lines[-1]) + 1 + len(statement) <= COLUMNS:
            lines[-1] += " " + statement
        else:
            lines.append(statement)
        in_kernel = in_kernel or statement == "{"
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether the committed text is up to date")
    options = parser.parse_args()
    for source, target, around in KERNELS:
        text = around.replace("@\n", packed(without_comments(compile_kernels(source))) + "\n", 1)
        if not options.check:
            (ROOT / target).write_text(text, encoding="utf-8")
        elif (ROOT / target).read_text(encoding="utf-8") != text:
            sys.exit(f"{target} is not what {source} gives; run scripts/copy_kernel.py")


if __name__ == "__main__":
    main()
