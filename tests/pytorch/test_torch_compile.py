"""Functional collectives, which torch.compile makes of all others, and what it makes of them; a compiled model."""

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch.distributed import _functional_collectives as collectives

import shoal

ELEMENTS = 1000
STEPS = 3


def exchange(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    group = dist.group.WORLD
    total = collectives.all_reduce(tensor * 2, "sum", group)
    mean = collectives.all_reduce(tensor, "avg", group)
    first, second = collectives.all_reduce_coalesced([tensor, tensor + 1], "max", group)
    gathered = collectives.all_gather_tensor(tensor, 0, group)
    return total + 1, mean, first * 2, second, gathered, collectives.reduce_scatter_tensor(gathered, "sum", 0, group)


def compile_a_function() -> list[int]:
    """How many all-reduces went through the servers, from the function as it is and compiled."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = sum(range(ranks))
    values = [2 * total + 1, total / ranks, 2 * (ranks - 1), ranks, None, ranks * rank]
    gathered = torch.arange(ranks, dtype=torch.float32).repeat_interleave(ELEMENTS)
    counts = []
    for function in (exchange, torch.compile(exchange, fullgraph=True)):
        before = shoal.statistics()["ops_completed"]
        for result, value in zip(function(torch.full((ELEMENTS,), float(rank))), values, strict=True):
            assert torch.equal(result, gathered if value is None else torch.full((ELEMENTS,), float(value))), value
        counts.append(shoal.statistics()["ops_completed"] - before)
    return counts


class Layers(torch.nn.Module):
    """Not torch's Sequential: of that torch 2.15 compiles nothing, in DistributedDataParallel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(inputs)))


def compile_a_model() -> list[list[float]]:
    """The gradient's norm of each step, of the model as it is and compiled; each step is one all-reduce."""
    norms = []
    for compiled in (False, True):
        torch.manual_seed(1)
        model = torch.nn.parallel.DistributedDataParallel(Layers())
        run = torch.compile(model, backend="aot_eager") if compiled else model
        torch.manual_seed(dist.get_rank())
        norms.append([])
        before = shoal.statistics()["ops_completed"]
        for _ in range(STEPS):
            model.zero_grad()
            run(torch.randn(16, 64)).square().mean().backward()
            norms[-1].append(sum(parameter.grad.norm().item() for parameter in model.parameters()))
        assert shoal.statistics()["ops_completed"] == before + STEPS
        assert (torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0) == compiled
    return norms


@pytest.fixture(scope="module")
def settings(cluster, tmp_path_factory) -> dict[str, str]:
    # Compiled in the rank's own process; nothing of an earlier run is found; no time goes to what vectors there are.
    return cluster.environment(
        TORCHINDUCTOR_COMPILE_THREADS="1",
        TORCHINDUCTOR_CACHE_DIR=str(tmp_path_factory.mktemp("compiled")),
        TORCHINDUCTOR_VEC_ISA_OK="0",
    )


def test_functional_collectives_are_the_same_compiled(settings):
    # Sum, average and two coalesced ones; a reduce-scatter is the inner backend's.
    assert run_ranks(2, compile_a_function, environment=settings) == [[4, 4], [4, 4]]


def test_a_compiled_model_has_the_same_gradients_on_all_ranks(settings):
    norms = run_ranks(2, compile_a_model, environment=settings)
    assert norms[0] == norms[1]
    plain, compiled = norms[0]
    assert compiled == pytest.approx(plain, rel=1e-5)
    assert len(set(plain)) == STEPS
