"""A rank that runs the job's scheduler or a server leaves before the others: it stays as long as they need it."""

import os
import time

import torch
import torch.distributed as dist
from rank_processes import GROUP_TIMEOUT, run_ranks
from shoal import membership

RANKS = 3
LEAVE_SECONDS = 3  # instead of more, so that the tests are short
SERVERS = {"SHOAL_NODE_REDUCE": "off"}


def be_told(word: str) -> list[str]:
    """Lines that this process writes while it leaves; others can wait for the first one."""
    store = dist.distributed_c10d._get_default_store()
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        store.set(word, "told")

    membership._tell = tell
    membership.LEAVE_SECONDS = LEAVE_SECONDS
    return told


def reduce_among(group: dist.ProcessGroup, ranks: int) -> None:
    tensor = torch.ones(300_000)
    dist.all_reduce(tensor, group=group)
    assert (tensor == ranks).all(), tensor[0]


def leave_first() -> list[str]:
    others = dist.new_group([1, 2])
    reduce_among(dist.group.WORLD, RANKS)
    told = be_told("rank 0 stays")
    if dist.get_rank() == 0:
        dist.destroy_process_group()
        return told
    dist.distributed_c10d._get_default_store().wait(["rank 0 stays"], GROUP_TIMEOUT)
    reduce_among(others, RANKS - 1)
    reduce_among(dist.new_group([1, 2], use_local_synchronization=True), RANKS - 1)
    dist.destroy_process_group()
    return told


def test_rank_0_stays_until_the_others_have_left():
    told = run_ranks(RANKS, leave_first, environment=SERVERS)
    assert told[1:] == [[], []]
    assert told[0][0].startswith("shoal: rank 0 runs the job's scheduler and a server, so it stays until all ranks")
    assert told[0][0].endswith("2 other ranks are still in the job"), told[0]


def end_without_a_word() -> float:
    reduce_among(dist.group.WORLD, RANKS)
    be_told("rank 0 stays")
    if dist.get_rank() == 0:
        begin = time.monotonic()
        dist.destroy_process_group()
        return time.monotonic() - begin
    dist.distributed_c10d._get_default_store().wait(["rank 0 stays"], GROUP_TIMEOUT)
    os._exit(1)


def test_rank_0_does_not_wait_for_ranks_that_are_gone():
    seconds = run_ranks(RANKS, end_without_a_word, environment=SERVERS, expect_failures=True)[0]
    assert LEAVE_SECONDS < seconds < 60, seconds


def end_the_script_first() -> list[str]:
    others = dist.new_group([1, 2])
    reduce_among(dist.group.WORLD, RANKS)
    told = be_told("rank 0 goes")
    if dist.get_rank() == 0:
        membership._leave_at_exit()
        return told
    dist.distributed_c10d._get_default_store().wait(["rank 0 goes"], GROUP_TIMEOUT)
    dist.destroy_process_group(others)
    return told


def test_a_script_that_ends_without_leaving_says_that_it_takes_the_scheduler_with_it():
    told = run_ranks(RANKS, end_the_script_first, environment=SERVERS)[0]
    assert len(told) == 1 and "2 other ranks are still in the job and will fail" in told[0], told
    assert "destroy_process_group() at the end of the script" in told[0]
