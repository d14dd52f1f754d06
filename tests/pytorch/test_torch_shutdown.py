"""A group that is shut down by one thread while another is inside a call, and calls that come afterwards."""

import ctypes
import pathlib
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from rank_processes import hear, monitored_barrier, run_ranks, say

M_PERTURB = -6  # of mallopt: memory that is freed is filled, so that who still uses it fails


def wait_until_asleep(native_thread: int) -> None:
    """Of a thread that holds no GIL, as this one does."""
    stat = pathlib.Path(f"/proc/self/task/{native_thread}/stat")
    deadline = time.monotonic() + 30
    while stat.read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline


def shut_down_while_another_thread_is_inside() -> str | None:
    if dist.get_rank() == 1:
        hear("the group of rank 0 is shut down")
        monitored_barrier()
        return None
    ctypes.CDLL(None).mallopt(M_PERTURB, 165)
    sys.setswitchinterval(3600)  # who has the GIL keeps it until it is inside
    entered = threading.Event()
    ended, thread_ids = [], []

    def wait_for_the_other_rank() -> None:
        thread_ids.append(threading.get_native_id())
        entered.set()
        try:
            monitored_barrier()
            ended.append("well")
        except Exception as error:
            ended.append(str(error))

    waiting = threading.Thread(target=wait_for_the_other_rank)
    waiting.start()
    entered.wait()
    wait_until_asleep(thread_ids[0])
    dist.group.WORLD._get_backend(torch.device("cpu")).shutdown()
    assert not ended
    kept = [bytes(1000) for _ in range(1000)]  # takes the place of what was freed
    say("the group of rank 0 is shut down")
    waiting.join()
    del kept
    return ended[0]


def test_a_call_that_is_inside_when_the_group_is_shut_down_ends_as_if_it_were_not(cluster):
    function = shut_down_while_another_thread_is_inside
    assert run_ranks(2, function, environment=cluster.environment(), timeout_seconds=60)[0] == "well"


def call_after_the_shutdown() -> None:
    group = dist.group.WORLD
    backend = group._get_backend(torch.device("cpu"))
    backend.shutdown()
    tensor = torch.ones(2)
    for call in (
        lambda: dist.broadcast(tensor, src=0),
        lambda: dist.barrier(),
        lambda: monitored_barrier(),
        lambda: dist.all_reduce(tensor),
        lambda: dist.all_reduce_coalesced([tensor, tensor]),
        lambda: dist.all_reduce(tensor.int(), op=dist.ReduceOp.BOR),
        lambda: dist.send(tensor, dst=1 - dist.get_rank()),
        lambda: dist.recv(tensor, src=1 - dist.get_rank()),
        lambda: dist.recv(tensor),
    ):
        with pytest.raises(RuntimeError, match="a process group that is destroyed"):
            call()
    group._wait_for_pending_works()
    group.abort()
    backend.shutdown()


def test_a_call_on_a_group_that_is_shut_down_says_so(cluster):
    run_ranks(2, call_after_the_shutdown, environment=cluster.environment(), timeout_seconds=60)
