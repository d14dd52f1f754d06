"""The CUDA devices of the tests that run on either kind: torch's on the simulated driver, unless TEST_ON_GPU=1 says
that those of this machine are meant.

`load()`, in a rank, gives tensors, streams that can be held, and a device's failure; `simulated_device` says more.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import gpu_device
import simulated_device
import torch

ON_GPU = os.environ.get("TEST_ON_GPU") == "1"
# Of ranks that reduce by way of the servers alone, and of those that reduce within their node first.
ENVIRONMENT = {"SHOAL_DEVICES": "cuda", "SHOAL_NODE_REDUCE": "off"} | ({} if ON_GPU else simulated_device.LIBRARIES)
ON_NODES = ENVIRONMENT | {"SHOAL_NODE_REDUCE": "nccl"}
ERROR_OF_A_FAILED_DEVICE = "device-side assert" if ON_GPU else "launch failure"


def build() -> None:
    if not ON_GPU:
        simulated_device.build()


def load() -> Any:
    return gpu_device.load() if ON_GPU else simulated_device.load()


def use_devices() -> None:
    """The process has used device 0 so far, as the plugin sees it: of a simulated one torch's Python knows nothing."""
    if not ON_GPU:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.device_count = lambda: load().devices
        torch._C._cuda_hasPrimaryContext = lambda device: device == 0


def be_found() -> None:
    """The process has devices, as the plugin sees it with SHOAL_DEVICES=auto; without an NCCL as its inner backend."""
    if not ON_GPU:
        torch.cuda.is_available = lambda: True
        torch.distributed.is_nccl_available = lambda: False


@contextlib.contextmanager
def stream(stream: Any) -> Iterator[None]:
    """One that `make_stream` gave is the current one of this thread."""
    with torch.cuda.stream(stream) if ON_GPU else simulated_device.stream(stream):
        yield


def reduce_first(cuda: Any) -> None:
    """The first reduction on a device may wait for all that runs there, and those of a kind within a node, which NCCL
    has several ways for, for the other rank."""
    for count in (100_003, 100_004):
        for _ in range(2):  # in turns on two streams
            torch.distributed.all_reduce(cuda.on_device(torch.ones(count)))
    cuda.synchronize()
