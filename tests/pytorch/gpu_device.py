"""A GPU of this machine, with the functions that simulated_torch_cuda.cc has for a simulated one: for tests that run on
either (device_under_test.py). Ranks share the GPU where it has to be: NCCL takes them for ranks of different machines.
"""

import contextlib
import ctypes
import functools
import os

import torch

WRITTEN = 1
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
HOST_MEMORY_MAPPED, WAIT_UNTIL_EQUAL = 2, 1  # of CUDA's driver


@functools.cache
def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    code = getattr(driver(), name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: CUDA error {code}")


def share() -> int:
    """The device of this rank. To be called before the process uses NCCL."""
    count = torch.cuda.device_count()
    if count < int(os.environ["TEST_RANKS"]):
        os.environ["NCCL_HOSTID"] = f"rank-{os.environ['TEST_RANK']}"
    return int(os.environ["TEST_RANK"]) % count


class Gate:
    """Holds the current stream until it is opened."""

    def __init__(self) -> None:
        word, address = ctypes.c_void_p(), ctypes.c_uint64()
        call("cuMemHostAlloc", ctypes.byref(word), ctypes.c_size_t(4), ctypes.c_uint(HOST_MEMORY_MAPPED))
        call("cuMemHostGetDevicePointer_v2", ctypes.byref(address), word, ctypes.c_uint(0))
        self._word = ctypes.cast(word, ctypes.POINTER(ctypes.c_uint32))
        self._word[0] = 0
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call("cuStreamWaitValue32_v2", stream, address, ctypes.c_uint32(WRITTEN), ctypes.c_uint(WAIT_UNTIL_EQUAL))

    def open(self) -> None:
        self._word[0] = WRITTEN


class Gpu:
    """One per process, and all of its threads."""

    def __init__(self) -> None:
        self._own = share()
        torch.cuda.set_device(self._own)
        self.devices = 1  # that the process uses
        # The first launch of a kernel loads it, and that may wait for what the device is doing: not behind a gate.
        for dtype in DTYPES:
            for count in (3, 100_003):
                self.scale(self.fill(torch.zeros(count, dtype=dtype, device="cuda"), 1), 2)
        self.fill(torch.zeros(101, 107, device="cuda").t(), 1).contiguous().cpu()
        torch.cuda.synchronize()

    def on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("cuda")

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor, device="cuda")

    def on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()

    def fill(self, tensor: torch.Tensor, value: float) -> torch.Tensor:
        return tensor.fill_(value)

    def scale(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        return tensor.mul_(factor)

    def hold_stream(self) -> Gate:
        return Gate()

    def make_stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()

    def synchronize(self) -> None:
        torch.cuda.current_stream().synchronize()

    def fail(self) -> None:
        """Returns when the device has failed, which in this process is for good."""
        torch.zeros(1, device="cuda")[torch.full((1,), 7, device="cuda")]
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()


@functools.cache
def load() -> Gpu:
    return Gpu()
