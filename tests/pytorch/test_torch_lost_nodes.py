"""A group that goes on without lost ranks, on nodes of two ranks that reduce within their node: a rank that is killed
takes its node out, its neighbour gets an error that says so, and the ranks of the other nodes go on."""

import os
import re
import signal
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from changing_group import ELEMENTS, Group, check_collectives, run
from rank_processes import Failure
from user_nodes import join_user_node, make_user_nodes

import shoal

NODES = 3
RANKS_OF_A_NODE = 2
RANKS = NODES * RANKS_OF_A_NODE
STEPS = 12
KILLED = 3  # in step 4; its neighbour is 2
NODE_IS_OUT = r"rank \d of the job on \S+ was lost: .*which is out of group .*: the other nodes go on without it"


def average_until_a_rank_is_killed(_make_group: Callable, store_port: int, namespaces: list[str]) -> str | list[float]:
    """The averages of all steps, or the error of one."""
    join_user_node(namespaces, RANKS_OF_A_NODE)
    options = shoal.GroupOptions(on_rank_loss="continue", min_ranks=2)
    group = Group(store_port, "shoal", options=options)
    group.become(1, list(range(RANKS)))
    averages, error = [], ""
    try:
        for step in range(STEPS):
            if group.process == KILLED and step == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            pushed = shoal.statistics()["bytes_pushed"]
            tensor = torch.full((ELEMENTS,), (group.process + 1.0) ** 2)
            work = dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True)
            work.wait()
            assert (tensor == tensor[0]).all()
            averages.append(float(tensor[0]))
            assert work.contributors == ((6, 6) if step < 4 else (4, 4))
            bytes_of_part = tensor.nbytes / RANKS_OF_A_NODE
            assert step == 4 or shoal.statistics()["bytes_pushed"] - pushed < bytes_of_part + 1024
    except dist.DistBackendError as raised:
        error = str(raised)
    alive = [rank for rank in range(RANKS) if rank != KILLED]
    group.become(2, alive)  # the next roster has the rank that was left alone
    check_collectives(alive, group.process)
    return error or averages


def test_a_killed_rank_takes_its_node_out_and_the_others_go_on(cluster, store):
    with make_user_nodes(NODES) as namespaces:
        results = run(
            cluster, store, RANKS, average_until_a_rank_is_killed, namespaces, expect_failures=True,
            environment={"SHOAL_NODE_REDUCE": "auto"},
        )  # fmt: skip
    assert isinstance(results.pop(KILLED), Failure)
    assert re.search(NODE_IS_OUT, results.pop(KILLED - 1)), results
    for averages in results:
        assert averages == pytest.approx([91 / 6] * 4 + [66 / 4] * 8)
