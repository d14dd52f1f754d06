"""Shared memory between the processes of one node: used by itself, and not when it is switched off."""

import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch_cluster import Cluster

WORLD_SIZE = 3


def sum_and_look() -> tuple[bytes, bool]:
    """The bytes of a sum, and whether this process reads the servers' slot memory."""
    tensor = torch.randn(300_007, generator=torch.Generator().manual_seed(dist.get_rank()))
    dist.all_reduce(tensor)
    with open("/proc/self/maps") as maps:
        return tensor.numpy().tobytes(), any("memfd:shoal-slots" in line for line in maps)


def test_shared_memory_is_used_by_itself_unless_switched_off(cluster: Cluster):
    by_itself = run_ranks(WORLD_SIZE, sum_and_look, environment=cluster.environment())
    switched_off = run_ranks(WORLD_SIZE, sum_and_look, environment=cluster.environment(SHOAL_NETWORK_ONLY="1"))
    assert [shares for _, shares in by_itself] == [True] * WORLD_SIZE
    assert [shares for _, shares in switched_off] == [False] * WORLD_SIZE
    assert len({total for total, _ in by_itself + switched_off}) == 1, "the same bits either way"
