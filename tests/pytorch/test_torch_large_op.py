"""One all-reduce of a whole large model, as the first step of DistributedDataParallel makes.

GIB=20 makes it as large as such a model.
"""

import ctypes
import mmap
import os
import time

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

GIB = int(os.environ.get("GIB", "3"))  # more than 2^31 bytes
PIECE_BYTES = 256 << 20
MAP_FIXED = 0x10  # of Linux


def repeated_memory(tensor_bytes: int) -> torch.Tensor:
    """A float32 tensor whose pages are one piece of memory, again and again: so it fits into any machine.

    An average of equal contributions leaves them as they are, in whichever order equal pages are read and written.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    piece = os.memfd_create("piece")
    os.truncate(piece, PIECE_BYTES)
    base = library.mmap(None, tensor_bytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    for offset in range(0, tensor_bytes, PIECE_BYTES):
        flags = mmap.MAP_SHARED | MAP_FIXED
        at = library.mmap(base + offset, PIECE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, flags, piece, 0)
        assert at == base + offset, os.strerror(ctypes.get_errno())
    os.close(piece)
    return torch.frombuffer((ctypes.c_char * tensor_bytes).from_address(base), dtype=torch.float32)


def memory_kib() -> int:
    """What this process has mapped, its own memory and shared memory alike."""
    with open("/proc/self/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon:", "RssShmem:")))


def reduce_large(gib: int) -> dict[str, float]:
    tensor = repeated_memory(gib << 30)
    pattern = torch.rand(PIECE_BYTES // 4, generator=torch.Generator().manual_seed(1))
    tensor[: pattern.numel()] = pattern
    dist.all_reduce(torch.ones(1 << 20))
    tensor[:: mmap.PAGESIZE // 4].sum()  # maps all of it
    before_kib = memory_kib()
    seconds = []
    for _ in range(2):
        begun = time.monotonic()
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        seconds.append(time.monotonic() - begun)
    assert torch.equal(tensor[: pattern.numel()], pattern)
    assert torch.equal(tensor[-pattern.numel() :], pattern)
    return {"first_s": seconds[0], "second_s": seconds[1], "more_mib": (memory_kib() - before_kib) / 1024}


@pytest.mark.parametrize("node_reduce", ["auto", "off"])
def test_an_op_of_a_whole_model_needs_no_memory_of_its_size(cluster, node_reduce):
    environment = cluster.environment(SHOAL_NODE_REDUCE=node_reduce)
    for rank, result in enumerate(run_ranks(2, reduce_large, GIB, environment=environment)):
        print(f"{GIB} GiB, SHOAL_NODE_REDUCE={node_reduce}, rank {rank}: {result}")
        assert result["more_mib"] < 64, "a rank holds chunks, not tensors"
