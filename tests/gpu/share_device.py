#!/usr/bin/env python3
"""Runs a script of torchrun's ranks where several share a GPU, which NCCL refuses to ranks of one machine: it takes
them for ranks of different machines here.

    torchrun --nproc-per-node 2 tests/gpu/share_device.py SCRIPT [ARGUMENT ...]
"""

import os
import pathlib
import runpy
import sys

import torch

if torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
    os.environ["NCCL_HOSTID"] = f"rank-{os.environ['RANK']}"
del sys.argv[0]
sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
