"""Groups whose float32 tensors cross the wire in 16 or 8 bits."""

import hashlib

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from torch.nn.parallel import DistributedDataParallel

import shoal
from shoal import config

RANKS = 4


def as_blocks(tensor: torch.Tensor, wire: str) -> torch.Tensor:
    """What docs/numerics.md says of finite numbers on the 8-bit wires."""
    is_int8 = wire == "int8"
    count = tensor.numel()
    blocks = torch.nn.functional.pad(tensor.to(torch.float64), (0, -count % 32)).view(-1, 32)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    exponent = (torch.frexp(largest).exponent - (7 if is_int8 else 9)).clamp(min=-126 if is_int8 else -117)
    units = torch.ldexp(largest, -exponent)
    exponent += units >= 127.5 if is_int8 else units > 464  # the unit is too small: it would round to 128 or to 480
    units = torch.ldexp(blocks, -exponent)
    if is_int8:
        rounded = torch.round(units) + 0.0  # an integer has no negative zero
    else:
        rounded = units.to(torch.float32).to(torch.float8_e4m3fn).to(torch.float64)
    return torch.ldexp(rounded, exponent).flatten()[:count].to(torch.float32)


def as_sent(tensor: torch.Tensor, wire: str) -> torch.Tensor:
    if wire in ("int8", "fp8"):
        return as_blocks(tensor, wire)
    return tensor.to({"bf16": torch.bfloat16, "fp16": torch.float16}[wire]).to(torch.float32)


def contribution(rank: int, count: int = 30_011) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(rank))


def rounded_sum(wire: str, average: bool = False) -> torch.Tensor:
    """By PyTorch's own arithmetic: each contribution rounded, summed in float32 in rank order, rounded once."""
    total = as_sent(contribution(0), wire)
    for rank in range(1, RANKS):
        total += as_sent(contribution(rank), wire)
    return as_sent(total / RANKS if average else total, wire)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.view(torch.int32), right.view(torch.int32))


def reduce_float32(wire: str) -> list[bool]:
    checks, before = [], shoal.statistics()["bytes_pushed"]
    for operation, average in ((dist.ReduceOp.SUM, False), (dist.ReduceOp.AVG, True)):
        tensor = contribution(dist.get_rank())
        dist.all_reduce(tensor, op=operation)
        checks.append(same_bits(tensor, rounded_sum(wire, average)))
    count = tensor.numel()
    sent = count + -(-count // 32) if wire in ("int8", "fp8") else 2 * count
    checks.append(shoal.statistics()["bytes_pushed"] - before == 2 * sent)
    wide = contribution(dist.get_rank()).to(torch.float64)
    dist.all_reduce(wide)
    checks.append(torch.equal(wide, sum(contribution(rank).to(torch.float64) for rank in range(RANKS))))
    return checks


@pytest.mark.parametrize("wire", list(config.WIRES)[1:])
def test_float32_has_pytorchs_bits_and_fewer_bytes(cluster, wire):
    environment = cluster.environment(SHOAL_WIRE=wire)
    results = run_ranks(RANKS, reduce_float32, wire, environment=environment)
    assert results == [[True] * 4] * RANKS


def reduce_in_two_groups() -> list[bool]:
    narrow = dist.new_group(pg_options=shoal.GroupOptions(wire="bf16"))
    tensors = [contribution(dist.get_rank()) for _ in range(2)]
    dist.all_reduce(tensors[0])
    dist.all_reduce(tensors[1], group=narrow)
    plain = contribution(0)
    for rank in range(1, RANKS):
        plain += contribution(rank)
    return [same_bits(tensors[0], plain), same_bits(tensors[1], rounded_sum("bf16"))]


def test_the_wire_is_one_groups_own(cluster):
    assert run_ranks(RANKS, reduce_in_two_groups, environment=cluster.environment()) == [[True, True]] * RANKS


def make_groups_that_differ() -> None:
    dist.new_group(pg_options=shoal.GroupOptions(wire="bf16" if dist.get_rank() == 1 else None))


def test_ranks_that_differ_are_named(cluster):
    failures = run_ranks(2, make_groups_that_differ, environment=cluster.environment(), expect_failures=True)
    for failure in failures:
        assert "rank 0 gave" in failure.message and "wire none" in failure.message, failure
        assert "rank 1 gave" in failure.message and "wire bf16" in failure.message, failure


def make_groups_with_another_node_reduce() -> None:
    dist.new_group(pg_options=shoal.GroupOptions(node_reduce="host" if dist.get_rank() == 1 else None))


def test_ranks_that_differ_on_node_reduce_are_named(cluster):
    environment = cluster.environment()
    for failure in run_ranks(2, make_groups_with_another_node_reduce, environment=environment, expect_failures=True):
        assert "node_reduce is " in failure.message, failure
        assert "off on rank 0" in failure.message and "host on rank 1" in failure.message, failure


def reduce_with_an_own_node_reduce() -> list[int]:
    """What was reduced within the node, by a group with the job's setting and by one that asks for auto."""
    on_node = []
    for options in (None, shoal.GroupOptions(node_reduce="auto")):
        before = shoal.statistics()["bytes_on_node"]
        dist.all_reduce(torch.ones(1000), group=dist.new_group(pg_options=options))
        on_node.append(shoal.statistics()["bytes_on_node"] - before)
    return on_node


def test_a_group_may_ask_for_auto_where_the_setting_is_off(cluster):
    for with_the_setting, with_auto in run_ranks(2, reduce_with_an_own_node_reduce, environment=cluster.environment()):
        assert with_the_setting == 0 and with_auto > 0


def test_an_unknown_node_reduce_is_refused_before_anybody_is_asked():
    with pytest.raises(ValueError, match="node_reduce='ring': expected one of auto, off, host, nccl"):
        shoal.GroupOptions(node_reduce="ring")


def test_an_unknown_wire_is_refused_before_anybody_is_asked():
    with pytest.raises(ValueError, match="wire='int4': expected one of none, fp16, bf16, int8, fp8"):
        shoal.GroupOptions(wire="int4")


def reduce_small_numbers_beside_a_large_one(feedback: bool) -> tuple[float, int]:
    """The sum of what a number that int8 rounds to 0 has become in a hundred steps; and how much is kept."""
    group = dist.new_group(pg_options=shoal.GroupOptions(wire="int8", error_feedback=feedback))
    tensor, total = torch.empty(64), 0.0
    for _ in range(100):
        tensor.fill_(0.001)
        tensor[0] = 1
        dist.all_reduce(tensor, group=group)
        total += float(tensor[5])
    if not feedback:
        with pytest.raises(dist.DistBackendError, match="without error_feedback"):
            shoal.ErrorFeedback(group).state_dict()
        return total, 0
    saved = shoal.ErrorFeedback(group).state_dict()
    again = dist.new_group(pg_options=shoal.GroupOptions(wire="int8", error_feedback=True))
    shoal.ErrorFeedback(again).load_state_dict(saved)
    loaded = shoal.ErrorFeedback(again).state_dict()
    assert list(loaded) == ["0"] and torch.equal(loaded["0"], saved["0"])
    return total, sum(values.numel() for values in saved.values())


def test_what_rounding_takes_from_a_gradient_is_in_the_next_one(cluster):
    without = run_ranks(RANKS, reduce_small_numbers_beside_a_large_one, False, environment=cluster.environment())
    assert without == [(0.0, 0)] * RANKS
    results = run_ranks(RANKS, reduce_small_numbers_beside_a_large_one, True, environment=cluster.environment())
    for total, kept in results:
        assert kept == 64 and total == pytest.approx(RANKS * 0.1, abs=RANKS * 0.04)


def test_error_feedback_needs_a_wire_that_rounds_and_no_reduction_within_nodes(cluster):
    with pytest.raises(ValueError, match="node_reduce='host': ranks with error feedback do not reduce within their"):
        shoal.GroupOptions(wire="int8", error_feedback=True, node_reduce="host")
    failures = run_ranks(2, make_a_group_with_feedback_and_no_rounding, environment=cluster.environment())
    assert failures == [None, None]


def make_a_group_with_feedback_and_no_rounding() -> None:
    with pytest.raises(dist.DistBackendError, match="options->wire does not round: give it one that does"):
        dist.new_group(pg_options=shoal.GroupOptions(error_feedback=True))


def train() -> tuple[float, float, str]:
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(30):
        inputs = torch.randn(32, 64, generator=generator)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    return float(losses[0]), float(losses[-1]), digest


@pytest.mark.parametrize("wire", ["bf16", "int8", "fp8"])
def test_training_keeps_all_ranks_equal_and_learns_as_without(cluster, wire):
    narrow = run_ranks(2, train, environment=cluster.environment(SHOAL_WIRE=wire))
    plain = run_ranks(2, train, environment=cluster.environment())
    assert narrow[0][2] == narrow[1][2], "the weights differ between ranks"
    assert narrow[0][2] != plain[0][2], "the wire was not narrowed"
    for (first, last, _), (_, plain_last, _) in zip(narrow, plain):
        assert last < first / 2
        assert abs(last - plain_last) < 0.05 * first
