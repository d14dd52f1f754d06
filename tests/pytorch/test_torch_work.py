"""The work of an all-reduce: who completes it, what it says of itself, and what torch's tools see."""

import datetime
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

import inner_backends
import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks

import shoal

LARGE = 200_000  # elements: not a small op for the library


def threads_of_the_plugin() -> int:
    return sum(name.read_text().strip() == "shoal-torch" for name in pathlib.Path("/proc/self/task").glob("*/comm"))


def reduce_and_count_threads(asynchronous: bool) -> None:
    dist.all_reduce(torch.ones(4))
    for count in (1, 1024, LARGE):
        tensor = torch.ones(count)
        work = dist.all_reduce(tensor, async_op=asynchronous)
        if asynchronous:
            work.wait()
        assert (tensor == 2).all()
    assert threads_of_the_plugin() == 0, "an all-reduce that is waited for needs no thread of the plugin"
    store = dist.distributed_c10d._get_default_store()
    for rank in range(2):
        tensor = torch.ones(4)
        if rank == dist.get_rank():
            future = dist.all_reduce(tensor, async_op=True).get_future()  # before the other rank has called
            store.set(f"rank {rank} has a future", "")
            assert torch.equal(future.wait()[0], torch.full((4,), 2.0))
            assert threads_of_the_plugin() == 1, "a future is completed by a thread"
        else:
            store.wait([f"rank {rank} has a future"])
            dist.all_reduce(tensor)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_cpu_all_reduce_runs_on_the_thread_that_waits_for_it(cluster, asynchronous):
    run_ranks(2, reduce_and_count_threads, asynchronous, environment=cluster.environment())


def wait_from_several_threads() -> None:
    for count in (4, LARGE):
        tensor = torch.ones(2 * count)[::2]  # not contiguous: copied back once
        work = dist.all_reduce(tensor, async_op=True)
        waiters = [threading.Thread(target=work.wait) for _ in range(4)]
        for waiter in waiters:
            waiter.start()
        future = work.get_future()
        for waiter in waiters:
            waiter.join()
        assert work.is_completed() and work.is_success()
        assert torch.equal(future.wait()[0], tensor) and (tensor == 2).all()


def test_many_may_wait_for_one_work(cluster):
    run_ranks(2, wait_from_several_threads, environment=cluster.environment())


def drop_works() -> None:
    store = dist.distributed_c10d._get_default_store()
    kept = torch.ones(10)[::2]
    dist.all_reduce(kept, async_op=True)
    for _ in range(100):
        dist.all_reduce(torch.ones(1000), async_op=True)
    deadline = time.monotonic() + 30
    while shoal.statistics()["ops_completed"] < 101 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert shoal.statistics()["ops_completed"] == 101
    while not (kept == 2).all() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert (kept == 2).all(), "its result came though nobody waited"
    store.set(f"done {dist.get_rank()}", "1")
    store.wait(["done 0", "done 1"])


def test_works_that_are_dropped_end_by_themselves(cluster):
    run_ranks(2, drop_works, environment=cluster.environment())


def poll_a_work() -> None:
    tensor = torch.ones(10)
    work = dist.all_reduce(tensor, async_op=True)
    deadline = time.monotonic() + 30
    while not work.is_completed() and time.monotonic() < deadline:
        pass
    assert work.is_completed() and (tensor == 2).all()
    assert work._get_duration() > 0
    assert work.get_future_result().wait() == 0  # WorkResult.SUCCESS
    assert work.get_future().done()


def test_a_work_can_be_polled_and_knows_its_duration(cluster):
    run_ranks(2, poll_a_work, environment=cluster.environment())


def wait_for_the_result_of_an_expired_work() -> int:
    if dist.get_rank() == 1:
        dist.barrier()
        return 0
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=1)
    work = dist.group.WORLD.allreduce([torch.ones(10)], options)
    result = work.get_future_result().wait()
    dist.barrier()
    return result


def test_the_future_of_the_result_says_that_time_is_over(cluster):
    assert run_ranks(2, wait_for_the_result_of_an_expired_work, environment=cluster.environment())[0] == 1  # TIMEOUT


def lengthen_timeouts() -> list[float]:
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=20)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend._add_ephemeral_timeout(datetime.timedelta(seconds=7))
    works = [backend.allreduce([torch.ones(10)], options) for _ in range(2)]
    works[0].wait()
    works.append(backend.allreduce([torch.ones(10)], options))
    for work in works[1:]:
        work.wait()
    return [work.timeout.total_seconds() for work in works]


def test_an_ephemeral_timeout_is_over_when_the_first_work_is_complete(cluster):
    assert run_ranks(2, lengthen_timeouts, environment=cluster.environment()) == [[27, 27, 20]] * 2


def call_hooks() -> list[tuple]:
    infos = []
    dist.group.WORLD._register_on_completion_hook(lambda info: infos.append(info))
    for count in (4, LARGE):
        dist.all_reduce(torch.ones(count))
    dist.group.WORLD._wait_for_pending_works()
    assert all(info.active_duration.total_seconds() > 0 for info in infos)
    return [(str(info.op_type), info.seq) for info in infos]


def test_completion_hooks_hear_of_each_all_reduce(cluster):
    assert run_ranks(2, call_hooks, environment=cluster.environment()) == [
        [("OpType.ALLREDUCE", 1), ("OpType.ALLREDUCE", 2)]
    ] * 2


def call_hooks_beside_an_inner_backend_without(make_group) -> list[tuple]:
    inner_backends.use_one_for_gpus_that_sends_nothing()
    make_group()
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), sys.stderr.fileno())
        called = call_hooks()
        written.seek(0)
        assert b"takes none" in written.read()
    return called


def test_completion_hooks_hear_of_shoals_own_where_the_inner_backend_takes_none(cluster):
    environment = cluster.environment()
    assert run_ranks(2, call_hooks_beside_an_inner_backend_without, environment=environment, init=False) == [
        [("OpType.ALLREDUCE", 1), ("OpType.ALLREDUCE", 2)]
    ] * 2


def call_hooks_after_a_refusal() -> list[int]:
    infos = []
    dist.group.WORLD._register_on_completion_hook(lambda info: infos.append(info))
    without_number = dist._make_nccl_premul_sum(torch.ones(1, device="meta"))
    with pytest.raises(RuntimeError):
        dist.all_reduce(torch.ones(4), op=without_number)
    dist.all_reduce(torch.ones(4))
    dist.group.WORLD._wait_for_pending_works()
    return [info.seq for info in infos]


def test_nobody_waits_for_the_hook_of_an_all_reduce_that_was_refused(cluster):
    environment = cluster.environment()
    assert run_ranks(2, call_hooks_after_a_refusal, environment=environment, timeout_seconds=60) == [[1], [1]]


def read_the_flight_recorder() -> list[str]:
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(4), async_op=True).wait()
    dist.barrier()  # the recorder looks at what was open when the next collective comes
    entries = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(backend="shoal"))["entries"]
    return [entry["state"] for entry in entries if entry["profiling_name"] == "shoal:all_reduce"]


def test_the_flight_recorder_sees_all_reduces_complete(cluster):
    for states in run_ranks(2, read_the_flight_recorder, environment=cluster.environment()):
        assert states == ["completed"] * 4
