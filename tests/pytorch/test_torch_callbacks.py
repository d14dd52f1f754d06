"""What is raised where the plugin calls others, on threads of its own or not, ends no process and is not lost."""

import contextlib
import datetime
import os
import pathlib
import resource
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from rank_processes import GROUP_TIMEOUT, hear, run_ranks, say

from shoal import config, membership


def all_that_is_written(function, *arguments: object) -> str:
    """To standard error, also by threads of C++."""
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), sys.stderr.fileno())
        function(*arguments)
        written.seek(0)
        return written.read().decode()


def raise_in_a_hook_of_rank_1() -> None:
    rank = dist.get_rank()

    def hook(info: object) -> None:
        if rank == 1:
            hear("rank 0 has its sum")  # which a group that fails may not give any more
            raise ValueError("this hook is wrong")

    dist.group.WORLD._register_on_completion_hook(hook)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert (tensor == 2).all()
    if rank == 0:
        say("rank 0 has its sum")
    dist.group.WORLD._wait_for_pending_works()
    with pytest.raises(dist.DistBackendError, match="completion hook of rank 1 raised: ValueError: this hook is wrong"):
        dist.all_reduce(torch.ones(4))


@pytest.mark.parametrize("node_reduce", ["auto", "off"])
def test_a_completion_hook_that_raises_fails_the_group(cluster, node_reduce):
    environment = cluster.environment(SHOAL_NODE_REDUCE=node_reduce)
    run_ranks(2, raise_in_a_hook_of_rank_1, environment=environment, timeout_seconds=60)


def raise_in_the_hook_of_a_group_of_one() -> str:
    group = dist.new_group([0])

    def hook(info: object) -> None:
        raise ValueError("this hook is wrong")

    def reduce() -> None:
        group._register_on_completion_hook(hook)
        dist.all_reduce(torch.ones(4), group=group)
        group._wait_for_pending_works()

    return all_that_is_written(reduce)


def test_a_completion_hook_that_raises_is_reported_where_no_other_rank_is(cluster):
    [written] = run_ranks(1, raise_in_the_hook_of_a_group_of_one, environment=cluster.environment(), timeout_seconds=60)
    assert "completion hook of rank 0 raised: ValueError: this hook is wrong" in written


def wait_for_a_hook_that_does_not_return() -> None:
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    release = threading.Event()
    group._register_on_completion_hook(lambda info: release.wait(60))
    work = dist.all_reduce(torch.ones(4), group=group, async_op=True)
    with pytest.raises(dist.DistBackendError, match="hook of rank . .* for 1 all-reduces within .* 2000 ms"):
        group._wait_for_pending_works()
    release.set()
    work.wait()
    group._wait_for_pending_works()


def test_waiting_for_hooks_ends_with_the_timeout_of_the_group(cluster):
    run_ranks(2, wait_for_a_hook_that_does_not_return, environment=cluster.environment(), timeout_seconds=60)


def complete_what_the_all_reduce_completes(of_a_callback: bool) -> str:
    """Torch lets a future be completed by others than whoever made it."""

    def reduce() -> None:
        tensor = torch.ones(4)
        if dist.get_rank() == 1:
            hear("rank 0 has completed it")
        work = dist.all_reduce(tensor, async_op=True)
        if dist.get_rank() == 0:
            future = work.get_future()
            if of_a_callback:
                future = future.then(lambda ended: None)
            future.set_result(None)
            say("rank 0 has completed it")
        work.wait()
        assert (tensor == 2).all()
        dist.all_reduce(torch.ones(4))

    return all_that_is_written(reduce)


@pytest.mark.parametrize("of_a_callback", [False, True], ids=["its future", "a future of its callback"])
def test_a_future_that_somebody_else_has_completed_is_reported(cluster, of_a_callback):
    environment = cluster.environment()
    function = complete_what_the_all_reduce_completes
    written = run_ranks(2, function, of_a_callback, environment=environment, timeout_seconds=60)
    assert "the future of all-reduce 1 of rank 0" in written[0] and "the future" not in written[1]


def drop_a_session(make_group) -> str:
    membership.load_library()
    joined = membership.Membership(config.read_config(os.environ, {})[0])

    def raise_an_error() -> None:
        raise ValueError("the end is wrong")

    joined.stop_services = raise_an_error
    joined.join_alone(0, 1, GROUP_TIMEOUT)

    def drop() -> None:
        joined.session = None

    return all_that_is_written(drop)


def test_what_is_raised_when_a_session_is_dropped_is_reported(cluster):
    [written] = run_ranks(1, drop_a_session, environment=cluster.environment(), init=False, timeout_seconds=60)
    assert "shoal: leaving the job failed: ValueError: the end is wrong" in written


@contextlib.contextmanager
def without_memory_for_a_thread() -> Iterator[None]:
    """The stack of a new one has to be mapped."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def ask_for_a_future_without_a_thread() -> None:
    dist.all_reduce(torch.ones(4))
    tensor = torch.ones(4)
    work = dist.all_reduce(tensor, async_op=True)
    with without_memory_for_a_thread():
        future = work.get_future()
    assert (future.wait()[0] == 2).all() and (tensor == 2).all()


def test_a_future_is_completed_where_no_thread_can_be_started(cluster):
    run_ranks(2, ask_for_a_future_without_a_thread, environment=cluster.environment(), timeout_seconds=60)
