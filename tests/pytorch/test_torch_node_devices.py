"""CUDA tensors of nodes with several ranks: NCCL reduces to each rank's part, the part goes through the servers, NCCL
gathers; on torch's CUDA devices over the simulated driver, with tests/simulated_nccl, or on a GPU with TEST_ON_GPU=1,
which the ranks share. Two nodes are two user namespaces of this one (user_nodes.py)."""

import datetime
import os
from collections.abc import Callable, Iterator

import device_under_test
import pytest
import torch
import torch.distributed as dist
from rank_processes import hear, run_ranks, say
from user_nodes import join_user_node, make_user_nodes

import shoal

NODES = 2
RANKS_OF_A_NODE = 2
RANKS = NODES * RANKS_OF_A_NODE
ELEMENTS = 300_001


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    device_under_test.build()


@pytest.fixture(scope="module")
def namespaces() -> Iterator[list[str]]:
    with make_user_nodes(NODES) as nodes:
        yield nodes


def reduce_on_nodes(make_group: Callable, namespaces: list[str]) -> None:
    join_user_node(namespaces, RANKS_OF_A_NODE)
    cuda = device_under_test.load()
    make_group()
    rank = dist.get_rank()
    total = sum(range(1, RANKS + 1))
    for count in (1, 100, ELEMENTS):  # the first ones may wait for what runs on the device, and for the other rank
        for _ in range(2):  # in turns on two streams
            dist.all_reduce(cuda.on_device(torch.ones(count)))
    cuda.synchronize()
    for count in (1, 100, ELEMENTS):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            tensor = cuda.on_device(torch.zeros(count, dtype=dtype))
            gate = cuda.hold_stream()
            cuda.fill(tensor, rank + 1)  # runs long after the call below
            pushed = shoal.statistics()["bytes_pushed"]
            dist.all_reduce(tensor)
            cuda.scale(tensor, 2)
            gate.open()
            assert (cuda.on_host(tensor) == 2 * total).all(), (count, dtype)
            if count == ELEMENTS:  # a rank's part, not all of it
                bytes_of_part = tensor.nbytes / RANKS_OF_A_NODE
                assert abs(shoal.statistics()["bytes_pushed"] - pushed - bytes_of_part) < 64 * tensor.element_size()
    expected_of = {"AVG": total / RANKS, "MAX": RANKS, "MIN": 1, "PRODUCT": 24}
    for operation, expected in expected_of.items():
        tensor = cuda.on_device(torch.full((1000,), float(rank + 1)))
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, operation))
        assert (cuda.on_host(tensor) == expected).all(), operation
    works = []
    for number in range(20):  # from both memories in turns, and several under way
        tensor = torch.full((5000,), float(number))
        tensor = cuda.on_device(tensor) if number % 3 else tensor
        works.append((number, tensor, dist.all_reduce(tensor, async_op=True)))
    for number, tensor, work in works:
        work.wait()
        result = cuda.on_host(tensor) if number % 3 else tensor
        assert (result == number * RANKS).all(), number


def test_ranks_of_a_node_reduce_on_their_devices_and_each_pushes_its_part(cluster, namespaces):
    environment = cluster.environment() | device_under_test.ON_NODES
    run_ranks(RANKS, reduce_on_nodes, namespaces, environment=environment, init=False)


def lose_a_rank(make_group: Callable, namespaces: list[str]) -> str:
    join_user_node(namespaces, RANKS_OF_A_NODE)
    cuda = device_under_test.load()
    make_group()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)
    assert (cuda.on_host(tensor) == RANKS).all()
    if dist.get_rank() == RANKS - 1:
        for rank in range(RANKS - 1):
            hear(f"called by {rank}")
        os._exit(0)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    say(f"called by {dist.get_rank()}")
    values = cuda.on_host(tensor)
    assert values.isnan().all(), f"{values.isnan().sum()} of {ELEMENTS}"
    with pytest.raises(dist.DistBackendError) as error:
        work.wait(datetime.timedelta(seconds=30))
    return str(error.value)


def test_a_rank_that_dies_is_named_on_both_nodes_and_streams_go_on(cluster, namespaces):
    environment = cluster.environment() | device_under_test.ON_NODES
    results = run_ranks(RANKS, lose_a_rank, namespaces, environment=environment, init=False, expect_failures=True)
    for message in results[: RANKS - 1]:
        assert isinstance(message, str), message
        assert f"rank {RANKS - 1}" in message
