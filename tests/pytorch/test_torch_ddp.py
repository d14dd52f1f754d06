"""DistributedDataParallel and its hooks: the weights that Gloo gives."""

import pytest
import shoal
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

RANKS = 4
STEPS = 8


def make_model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def train(hook: str) -> list[torch.Tensor]:
    # PowerSGD starts all-reduces in callbacks: with several buckets their order is left to chance, here as with Gloo.
    model = DistributedDataParallel(make_model(), bucket_cap_mb=25 if hook == "power_sgd" else 0.1)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif hook == "power_sgd":
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(STEPS):
        inputs = torch.randn(16, 64, generator=generator)
        with model.no_sync() if step == 3 else torch.enable_grad():
            nn.functional.cross_entropy(model(inputs), inputs[:, :10].argmax(1)).backward()
        if step != 3:
            optimizer.step()
            optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("hook", "tolerance", "node_reduce"),
    [
        ("none", 1e-6, "off"),
        ("none", 1e-6, "auto"),
        ("fp16", 1e-3, "off"),
        ("bf16", 1e-2, "off"),
        pytest.param("power_sgd", 1e-3, "off", marks=pytest.mark.long),
        ("power_sgd", 1e-3, "auto"),
    ],
)
def test_weights_are_those_of_gloo(cluster, hook, tolerance, node_reduce):
    with_shoal = run_ranks(RANKS, train, hook, environment=cluster.environment(SHOAL_NODE_REDUCE=node_reduce))
    with_gloo = run_ranks(RANKS, train, hook, backend="gloo")
    for rank in range(1, RANKS):
        for ours, first in zip(with_shoal[rank], with_shoal[0]):
            assert torch.equal(ours, first), "ranks differ"
    for ours, theirs in zip(with_shoal[0], with_gloo[0]):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


class HalfUsed(nn.Module):
    """Each rank leaves another parameter out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (self.first if dist.get_rank() % 2 == 0 else self.second)(inputs)


def train_half_used() -> list[torch.Tensor]:
    model = DistributedDataParallel(HalfUsed(), find_unused_parameters=True)
    for _ in range(3):
        model(torch.ones(4, 8) * (dist.get_rank() + 1)).sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_find_unused_parameters(cluster):
    with_shoal = run_ranks(2, train_half_used, environment=cluster.environment())
    with_gloo = run_ranks(2, train_half_used, backend="gloo")
    for ours, theirs in zip(with_shoal[0], with_gloo[0]):
        torch.testing.assert_close(ours, theirs)


LAYERS = 5
LAYER_MIB = 64 * 64 * 4 / 2**20


def layers_of_each_all_reduce(settings: dict) -> list[list[int]]:
    """Of four steps. The all-reduce of one int32 for each parameter counts as 0 layers."""
    model = DistributedDataParallel(
        nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(LAYERS))), bucket_cap_mb=2 * LAYER_MIB, **settings
    )
    buckets: list[int] = []

    def average(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.append(len(bucket.parameters()))
        reduced = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True).get_future()
        return reduced.then(lambda future: future.value()[0])

    model.register_comm_hook(None, average)
    steps = []
    for _ in range(4):
        buckets.clear()
        before = shoal.statistics()["ops_completed"]
        model(torch.ones(4, 64)).sum().backward()
        others = shoal.statistics()["ops_completed"] - before - len(buckets)
        steps.append([*buckets, *[0] * others])
    return steps


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[5], [2, 2, 1], [2, 2, 1], [2, 2, 1]]),
        ({"find_unused_parameters": True}, [[1, 2, 2, 0]] * 4),
        ({"static_graph": True}, [[5, 0], [5], [2, 2, 1], [2, 2, 1]]),
    ],
    ids=["defaults", "find_unused_parameters", "static_graph"],
)
def test_all_reduces_of_each_step_are_those_of_the_page(cluster, settings: dict, expected: list[list[int]]):
    """The table of docs/training.md."""
    assert run_ranks(2, layers_of_each_all_reduce, settings, environment=cluster.environment()) == [expected] * 2


def train_uneven() -> int:
    model = DistributedDataParallel(nn.Linear(8, 8))
    steps = 0
    with model.join():
        for _ in range(2 + 3 * dist.get_rank()):
            model(torch.ones(4, 8)).sum().backward()
            steps += 1
    return steps


def test_join_with_uneven_inputs(cluster):
    assert run_ranks(2, train_uneven, environment=cluster.environment()) == [2, 5]
