"""All-reduce against references: dtypes, operations, shapes, futures."""

import hashlib

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

import shoal

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
OPERATIONS = ["SUM", "AVG", "MIN", "MAX", "PRODUCT"]
RANKS = 4


def served() -> int:
    return shoal.statistics()["ops_completed"]


def contribution(rank: int, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Small integers: sums and products are exact in every dtype."""
    generator = torch.Generator().manual_seed(rank + 1)
    lowest = 0 if dtype == torch.uint8 else -3
    return torch.randint(lowest, 4, (count,), generator=generator).to(dtype)


def reference(operation: str, dtype: torch.dtype, count: int, ranks: int) -> torch.Tensor:
    stacked = torch.stack([contribution(rank, dtype, count).to(torch.float64) for rank in range(ranks)])
    result = {
        "SUM": lambda: stacked.sum(0), "AVG": lambda: stacked.sum(0) / ranks, "MIN": lambda: stacked.amin(0),
        "MAX": lambda: stacked.amax(0), "PRODUCT": lambda: stacked.prod(0),
    }[operation]()  # fmt: skip
    return (result if dtype.is_floating_point else result.trunc()).to(dtype)


def reduce_every_dtype_and_operation(counts: list[int]) -> list[str]:
    wrong, before, calls = [], served(), 0
    for dtype in FLOATS + INTEGERS:
        for operation in OPERATIONS:
            for count in counts:
                tensor = contribution(dist.get_rank(), dtype, count)
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, operation))
                calls += 1
                if not torch.equal(tensor, reference(operation, dtype, count, dist.get_world_size())):
                    wrong.append(f"{dtype} {operation} {count}")
    assert served() - before == calls, "some did not go through the servers"
    return wrong


def test_every_dtype_and_operation_equals_the_reference(cluster):
    results = run_ranks(RANKS, reduce_every_dtype_and_operation, [1, 7, 10_001], environment=cluster.environment())
    assert results == [[]] * RANKS


def reduce_random() -> str:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    digest = hashlib.sha256()
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
        inputs = [torch.randn(300_007, generator=torch.Generator().manual_seed(r)).to(dtype) for r in range(ranks)]
        tensor = inputs[rank].clone()
        dist.all_reduce(tensor)
        expected = torch.stack(inputs).double().sum(0)
        torch.testing.assert_close(tensor.double(), expected, rtol=tolerance, atol=tolerance * 4)
        digest.update(tensor.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("chunk_bytes", ["16K", "1M"])
def test_random_floats_are_equal_on_all_ranks_bit_for_bit(cluster, chunk_bytes):
    digests = run_ranks(RANKS, reduce_random, environment=cluster.environment(SHOAL_CHUNK_BYTES=chunk_bytes))
    again = run_ranks(RANKS, reduce_random, environment=cluster.environment(SHOAL_CHUNK_BYTES="64K"))
    assert len(set(digests + again)) == 1, "the bits depend on the chunk size or the run"


def test_ranks_that_may_reduce_on_their_node_have_the_bits_of_the_servers(cluster):
    with_servers = run_ranks(RANKS, reduce_random, environment=cluster.environment())
    on_node = run_ranks(RANKS, reduce_random, environment=cluster.environment(SHOAL_NODE_REDUCE="auto"))
    assert len(set(with_servers + on_node)) == 1


def reduce_premultiplied() -> None:
    for factor in (0.25, torch.tensor([0.25])):
        for dtype in FLOATS:
            tensor = torch.full((100,), 4.0, dtype=dtype)
            dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(factor))
            assert (tensor == dist.get_world_size()).all()


def test_premul_sum(cluster):
    run_ranks(2, reduce_premultiplied, environment=cluster.environment())


def count_op_times() -> None:
    dist.all_reduce(torch.ones(10))
    statistics = shoal.statistics()
    times = statistics["op_times"]
    assert sum(bucket["ops"] for bucket in times) == statistics["ops_completed"] > 0
    bounds = [bucket["at_most_ns"] for bucket in times]
    assert bounds == sorted(set(bounds)) and bounds[-1] == 2**64 - 1
    longest = max(bucket["at_most_ns"] for bucket in times if bucket["ops"] > 0)
    assert statistics["op_time_ns_total"] <= longest * statistics["ops_completed"]


def test_the_time_of_each_all_reduce_is_counted(cluster):
    run_ranks(2, count_op_times, environment=cluster.environment())


def keep_many_in_flight() -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((1 + 997 * i,), float(rank + i)) for i in range(200)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed() and work.is_success()
    for i, tensor in enumerate(tensors):
        assert (tensor == sum(range(ranks)) + i * ranks).all()
    assert works[3].result()[0].data_ptr() == tensors[3].data_ptr()


def test_many_asynchronous_all_reduces(cluster):
    run_ranks(RANKS, keep_many_in_flight, environment=cluster.environment())


def use_futures() -> None:
    ranks = dist.get_world_size()
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
    assert (future.wait()[0] == ranks).all()
    doubled = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert (doubled.wait() == 2 * ranks).all()

    def reduce_again(done: torch.futures.Future) -> torch.Tensor:
        return dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]

    # A callback that waits for a later all-reduce, as PowerSGD does.
    nested = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(reduce_again)
    assert (nested.wait() == ranks * ranks).all()


def test_futures_and_callbacks_that_wait(cluster):
    run_ranks(RANKS, use_futures, environment=cluster.environment())


def reduce_odd_shapes() -> None:
    ranks = dist.get_world_size()
    matrix = torch.arange(12.0).reshape(3, 4)
    transposed = matrix.clone().t()
    dist.all_reduce(transposed)
    assert torch.equal(transposed, matrix.t() * ranks) and not transposed.is_contiguous()

    whole = torch.ones(10, 10)
    dist.all_reduce(whole[:, ::2])
    assert (whole[:, ::2] == ranks).all() and (whole[:, 1::2] == 1).all(), "wrote beside the view"

    channels_last = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    dist.all_reduce(channels_last)
    assert (channels_last == ranks).all()

    for empty in (torch.empty(0), torch.empty(3, 0, 2)):
        work = dist.all_reduce(empty, async_op=True)
        assert work.wait() and work.get_future().wait()[0].shape == empty.shape

    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar)
    assert scalar.item() == 2 * ranks

    leaf = torch.ones(5, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf)
    assert (leaf == ranks).all()
    with torch.inference_mode():
        inferred = torch.ones(4, 4).t()
        work = dist.all_reduce(inferred, async_op=True)
    work.wait()  # copies the result back, into a tensor that can be written nowhere but in inference mode
    assert (inferred == ranks).all()

    # Complex sums are sums of pairs of floats.
    complex_tensor = torch.full((5,), 1 + 2j)
    dist.all_reduce(complex_tensor)
    assert (complex_tensor == ranks * (1 + 2j)).all()


def test_non_contiguous_zero_size_and_scalar_tensors(cluster):
    run_ranks(3, reduce_odd_shapes, environment=cluster.environment())


def reduce_coalesced() -> None:
    ranks = dist.get_world_size()
    before = served()
    with dist._coalescing_manager():
        tensors = [torch.full((n,), float(n)) for n in (1, 2, 0, 3000)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert all((tensor == n * ranks).all() for tensor, n in zip(tensors, (1, 2, 0, 3000)))
    assert served() - before == 4, "an empty tensor counts as well"

    group = dist.group.WORLD
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.MAX
    tensors = [torch.full((4,), float(dist.get_rank())), torch.full((5,), -float(dist.get_rank()))]
    group.allreduce_coalesced(tensors, options).wait()
    assert (tensors[0] == ranks - 1).all() and (tensors[1] == 0).all()


def test_coalesced(cluster):
    run_ranks(3, reduce_coalesced, environment=cluster.environment())
