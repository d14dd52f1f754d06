"""What Gloo does for Shoal is right, or is refused before it begins: Gloo alone would give wrong numbers."""

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

RANKS = 2


def in_layout(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """An equal tensor whose elements lie otherwise."""
    if layout == "with gaps":
        room = torch.zeros([2 * size for size in tensor.shape], dtype=tensor.dtype)
        placed = room[tuple(slice(None, None, 2) for _ in tensor.shape)]
    elif layout == "in another order":
        placed = torch.empty(tensor.shape[::-1], dtype=tensor.dtype).permute(*reversed(range(tensor.dim())))
    else:
        placed = torch.empty(tensor.shape, dtype=tensor.dtype)
    placed.copy_(tensor)
    return placed


def check_the_group() -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, src=0)
    assert (tensor == RANKS).all()


def ask_for_results_in(layout: str) -> None:
    values = torch.arange(8).reshape(4, 2)
    several = [values for _ in range(RANKS)]
    calls: dict[str, Callable[[torch.Tensor], object]] = {
        "broadcast": lambda tensor: dist.broadcast(tensor, src=0),
        "reduce": lambda tensor: dist.reduce(tensor, dst=0),
        "all-reduce": lambda tensor: dist.all_reduce(tensor, op=dist.ReduceOp.BOR),
        "scatter": lambda tensor: dist.scatter(tensor, several if dist.get_rank() == 0 else None, src=0),
        "reduce-scatter": lambda tensor: dist.reduce_scatter(tensor, several),
        "all-to-all": lambda tensor: dist.all_to_all_single(tensor, values),
    }
    for name, call in calls.items():
        tensor = in_layout(values, layout)
        room = tensor._base.clone()
        with pytest.raises(ValueError, match=f"shoal: {name} .*not contiguous .*pass tensor.contiguous"):
            call(tensor)
        assert torch.equal(tensor._base, room), name
    check_the_group()


@pytest.mark.parametrize("layout", ["with gaps", "in another order"])
def test_results_in_tensors_that_are_not_contiguous_are_refused(cluster, layout):
    run_ranks(RANKS, ask_for_results_in, layout, environment=cluster.environment(), timeout_seconds=60)


def average_integers() -> None:
    reduce_op = dist.ReduceOp.AVG
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64):
        parts = list(torch.arange(4).to(dtype).split(2))
        result = torch.ones(2, dtype=dtype)
        whole = torch.cat(parts)
        calls = [
            lambda: dist.reduce(whole, dst=0, op=reduce_op),
            lambda: dist.reduce_scatter(result, parts, op=reduce_op),
            lambda: dist.reduce_scatter_tensor(result, whole, op=reduce_op),
            lambda: dist.group.WORLD.reduce_scatter_tensor_coalesced([result], [whole], reduce_scatter_options()),
        ]
        if dtype == torch.bool:
            calls.append(lambda: dist.all_reduce(whole, op=reduce_op))
            calls.append(lambda: dist.all_reduce_coalesced([whole], op=reduce_op))
        for call in calls:
            with warnings.catch_warnings(), pytest.raises(TypeError, match="with AVG of a torch.* Gloo can't divide"):
                warnings.simplefilter("ignore")  # all_reduce_coalesced is deprecated
                call()
            assert torch.equal(whole, torch.arange(4).to(dtype)) and (result == 1).all()
    check_the_group()


def reduce_scatter_options() -> dist.ReduceScatterOptions:
    options = dist.ReduceScatterOptions()
    options.reduceOp = dist.ReduceOp.AVG
    return options


def test_averages_of_integers_that_gloo_would_leave_summed_are_refused(cluster):
    run_ranks(RANKS, average_integers, environment=cluster.environment(), timeout_seconds=60)


def read_what_lies_otherwise_on_each_rank() -> None:
    rank = dist.get_rank()
    world = dist.group.WORLD
    values = torch.arange(8.0).reshape(4, 2) + 100 * rank
    expected = [torch.arange(8.0).reshape(4, 2) + 100 * other for other in range(RANKS)]
    layout = "in another order" if rank == 0 else "with gaps"
    given = in_layout(values, layout)
    both = [given for _ in range(RANKS)]
    total = sum(expected)
    half = total.split(2)[rank]

    def empty(*shape: int) -> torch.Tensor:
        return torch.full(shape, -1.0)

    result = empty(4, 2)
    dist.scatter(result, [in_layout(each, layout) for each in expected] if rank == 0 else None, src=0)
    assert torch.equal(result, expected[rank])
    dist.reduce_scatter(result, both)
    assert torch.equal(result, total)
    result = empty(2, 2)
    dist.reduce_scatter_tensor(result, given)
    assert torch.equal(result, half)
    result = empty(2, 2)
    world.reduce_scatter_tensor_coalesced([result], [given]).wait()
    assert torch.equal(result, half)
    # Results of these may lie anyhow as well.
    results = [in_layout(empty(4, 2), layout) for _ in range(RANKS)]
    dist.all_gather(results, given)
    assert all(map(torch.equal, results, expected))
    result = in_layout(empty(4 * RANKS, 2), layout)
    dist.all_gather_into_tensor(result, given)
    assert torch.equal(result, torch.cat(expected))
    results = [in_layout(empty(4, 2), layout) for _ in range(RANKS)]
    dist.gather(given, results if rank == 0 else None, dst=0)
    assert rank != 0 or all(map(torch.equal, results, expected))
    bits = [in_layout(values.int(), layout)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.all_reduce_coalesced(bits, op=dist.ReduceOp.BOR)
    assert torch.equal(bits[0], expected[0].int() | expected[1].int())


def test_what_is_read_may_lie_otherwise_on_each_rank(cluster):
    run_ranks(RANKS, read_what_lies_otherwise_on_each_rank, environment=cluster.environment(), timeout_seconds=60)
