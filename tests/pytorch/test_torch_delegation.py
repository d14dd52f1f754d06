"""What the servers don't do goes to the inner backend, and gives what it should."""

import gc
import weakref

import inner_backends
import pytest
import torch
import torch.distributed as dist
from rank_processes import monitored_barrier, run_ranks
from torch._C._distributed_c10d import Backend as C10dBackend

import shoal

RANKS = 3


def use_other_collectives() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = shoal.statistics()["ops_completed"]
    ones = torch.ones(4) * rank

    tensor = ones.clone()
    dist.broadcast(tensor, src=1)
    assert (tensor == 1).all()
    tensor = ones.clone()
    dist.reduce(tensor, dst=0)
    assert rank != 0 or (tensor == sum(range(ranks))).all()

    gathered = [torch.empty(4) for _ in range(ranks)]
    dist.all_gather(gathered, ones)
    assert all((part == other).all() for other, part in enumerate(gathered))
    flat = torch.empty(4 * ranks)
    dist.all_gather_into_tensor(flat, ones)
    assert torch.equal(flat, torch.arange(ranks).repeat_interleave(4).float())
    dist.gather(ones, gathered if rank == 0 else None, dst=0)
    assert rank != 0 or all((part == other).all() for other, part in enumerate(gathered))

    tensor = torch.empty(2)
    dist.scatter(tensor, [torch.full((2,), float(i)) for i in range(ranks)] if rank == 0 else None, src=0)
    assert (tensor == rank).all()
    tensor = torch.empty(2)
    dist.reduce_scatter_tensor(tensor, torch.arange(2.0 * ranks))
    assert torch.equal(tensor, ranks * torch.arange(2.0 * rank, 2.0 * rank + 2))
    tensor = torch.empty(1)
    dist.reduce_scatter(tensor, [torch.full((1,), float(i)) for i in range(ranks)])
    assert tensor.item() == ranks * rank
    tensor = torch.empty(ranks)
    dist.all_to_all_single(tensor, torch.full((ranks,), float(rank)))
    assert torch.equal(tensor, torch.arange(float(ranks)))

    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(ranks)]
    dist.barrier()
    monitored_barrier()
    assert shoal.statistics()["ops_completed"] == before, "a delegated collective went to the servers"


def test_other_collectives(cluster):
    run_ranks(RANKS, use_other_collectives, environment=cluster.environment())


def send_around() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty(3)
    exchange = [
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % ranks),
        dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    assert (received == (rank - 1) % ranks).all()
    if rank == 0:
        for _ in range(ranks - 1):
            dist.recv(received)
    else:
        dist.send(torch.ones(3), dst=0)


def test_point_to_point(cluster):
    run_ranks(RANKS, send_around, environment=cluster.environment())


def raise_in_a_block(kept: torch.Tensor) -> None:
    """What the block has gathered holds `kept`."""
    with (
        pytest.raises(RuntimeError, match="contiguous"),  # Gloo's; torch does not end the block then
        dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")),
    ):
        dist.broadcast(kept, src=0)
        dist.isend(torch.ones(6)[::2], (dist.get_rank() + 1) % dist.get_world_size())


def go_on_after_a_block_that_raised() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    kept = torch.ones(3)
    raise_in_a_block(kept)
    gathered = weakref.ref(kept)
    del kept
    with pytest.raises(RuntimeError, match="contiguous"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(6)[::2], (rank + 1) % ranks)])
    gc.collect()
    assert gathered() is None, "the next block lets go of what the one that raised has gathered"
    send_around()
    reduced = torch.ones(3)
    dist.all_reduce(reduced)
    assert (reduced == ranks).all()


def test_a_coalescing_block_that_raised_is_over_when_the_next_one_begins(cluster):
    run_ranks(RANKS, go_on_after_a_block_that_raised, environment=cluster.environment())


def abort_after_a_block_that_raised(whole_process: bool) -> None:
    kept = torch.ones(3)
    raise_in_a_block(kept)
    gathered = weakref.ref(kept)
    del kept
    group = dist.group.WORLD
    if whole_process:
        dist.distributed_c10d._abort_process_group()  # opens a block itself
        assert not dist.is_initialized()
    else:
        group.abort()
    gc.collect()
    assert gathered() is None, "an abort lets go of what the block has gathered"


@pytest.mark.parametrize("whole_process", [False, True])
def test_a_group_can_be_aborted_after_a_coalescing_block_that_raised(cluster, whole_process):
    run_ranks(2, abort_after_a_block_that_raised, whole_process, environment=cluster.environment())


def reduce_unsupported() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = shoal.statistics()["ops_completed"]
    bits = torch.tensor([1 << rank, 7], dtype=torch.int32)
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    assert bits.tolist() == [(1 << ranks) - 1, 7]
    common = torch.tensor([1 << rank, 7], dtype=torch.int32)
    dist.all_reduce(common, op=dist.ReduceOp.BAND)
    assert common.tolist() == [0, 7]

    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (ranks,))
    dist.all_reduce(sparse)
    assert torch.equal(sparse.to_dense(), torch.ones(ranks))
    assert shoal.statistics()["ops_completed"] == before

    # What neither can do is said by the inner backend, and the group stays usable.
    try:
        dist.all_reduce(torch.zeros(3, dtype=torch.complex64), op=dist.ReduceOp.MAX)
        raise AssertionError("MAX of complex numbers has no meaning")
    except (RuntimeError, ValueError):
        pass
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == ranks).all()


def test_unsupported_dtypes_operations_and_layouts(cluster):
    run_ranks(RANKS, reduce_unsupported, environment=cluster.environment())


def ask_for_what_only_nccl_has(make_group) -> None:
    inner_backends.use_one_for_gpus_that_sends_nothing()
    make_group()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    for name in ("suspend", "resume", "memory_stats"):
        with pytest.raises(RuntimeError, match="fake"):  # the inner backend, which has none of it either
            getattr(backend, name)()


def test_memory_of_communicators_is_the_inner_backends_matter(cluster):
    if not hasattr(C10dBackend, "suspend"):
        pytest.skip("torch 2.11 knows nothing of it")
    run_ranks(2, ask_for_what_only_nccl_has, environment=cluster.environment(), init=False)
