#!/usr/bin/env python3
"""Compiles worker/device/copy_kernel.cu to PTX and puts it into worker/device/copy_kernel_ptx.cc, which is committed:
nothing of this is needed to build the worker. Run it after a change of copy_kernel.h. tests/pytorch/test_copy_kernel.py
checks that the committed text is that of the sources.

    scripts/copy_kernel.py [--check]
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = "worker/device/copy_kernel.cu"
TARGET = ROOT / "worker/device/copy_kernel_ptx.cc"
COMPILER = "clang-19"
COLUMNS = 118
# Devices from 2017 on (Volta), the oldest whose memory model has what the kernel needs. Drivers compile it for newer
# ones.
OPTIONS = ["--cuda-gpu-arch=sm_70", "--cuda-feature=+ptx63", "-std=c++20", "-O3"]

HEAD = """// Made by scripts/copy_kernel.py from copy_kernel.cu. Do not change it by hand.
#include "worker/device/copy_kernel_ptx.h"

namespace shoal {

const char kCopyKernelPtx[] = R"ptx(
"""
TAIL = """)ptx";

}  // namespace shoal
"""


def compile_kernel() -> str:
    command = [COMPILER, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", *OPTIONS]
    done = subprocess.run(
        [*command, f"-I{ROOT}", "-S", "-o", "-", str(ROOT / SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{SOURCE} does not compile:\n{done.stderr}")
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
    text = HEAD + packed(without_comments(compile_kernel())) + "\n" + TAIL
    if options.check:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET.relative_to(ROOT)} is not what {SOURCE} gives; run scripts/copy_kernel.py")
        return
    TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
