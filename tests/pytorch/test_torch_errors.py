"""Bad input and lost ranks: an error that says who and what, in time, and a cluster that goes on serving."""

import datetime
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from rank_processes import Failure, monitored_barrier, run_ranks

import shoal


def reduce_once() -> None:
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all()


@pytest.fixture(autouse=True)
def cluster_still_serves(cluster):
    yield
    run_ranks(2, reduce_once, environment=cluster.environment())


def reduce_different_sizes() -> str:
    try:
        dist.all_reduce(torch.ones(100 + dist.get_rank()), async_op=True).wait()
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_sizes_that_differ_between_ranks(cluster):
    messages = run_ranks(3, reduce_different_sizes, environment=cluster.environment())
    for message in messages:
        assert message.startswith("shoal: all-reduce 1 of rank"), message
        assert "100" in message or "101" in message or "102" in message or "400" in message, message


def reduce_different_dtypes() -> str:
    dtype = torch.float32 if dist.get_rank() == 0 else torch.int32
    try:
        dist.all_reduce(torch.ones(100, dtype=dtype))
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_dtypes_that_differ_between_ranks(cluster):
    for message in run_ranks(2, reduce_different_dtypes, environment=cluster.environment()):
        assert "float32" in message and "int32" in message, message


def reduce_a_nan() -> tuple[str, str, float]:
    import math

    before = shoal.statistics()["result_square_sum"]
    tensor = torch.full((3, 100), 0.5)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    norm = math.sqrt(shoal.statistics()["result_square_sum"] - before)
    monitored_barrier()  # over Gloo: an abort ends ops that other ranks are not done with
    if dist.get_rank() == 1:
        tensor[2, 7] = math.nan
    try:
        dist.all_reduce(tensor)
    except (RuntimeError, ValueError) as error:
        return type(error).__name__, str(error), norm
    return "", "no error", norm


def test_a_contribution_with_nan_is_an_error_on_all_ranks_that_names_its_rank(cluster):
    results = run_ranks(2, reduce_a_nan, environment=cluster.environment(SHOAL_CHECK_FINITE="1"))
    for kind, message, norm in results:
        assert kind == "DistBackendError"
        assert "the contribution of rank 1 of the job to all-reduce 2" in message, message
        assert "(300 float32) has NaN at element 207" in message, message
        assert norm == pytest.approx(0.5 * 300**0.5)


def connect_and_measure(make_group) -> tuple[str, str, float]:
    started = time.monotonic()
    try:
        make_group()
    except (RuntimeError, ValueError) as error:
        return type(error).__name__, str(error), time.monotonic() - started
    return "", "no error", 0


def test_unreachable_scheduler():
    environment = {"SHOAL_SCHEDULER": "127.0.0.1:1", "SHOAL_TIMEOUT": "3"}
    for kind, message, seconds in run_ranks(2, connect_and_measure, environment=environment, init=False):
        assert kind == "DistBackendError" and "127.0.0.1:1" in message, message
        assert seconds < 15


def test_too_few_servers(cluster):
    environment = cluster.environment(SHOAL_MIN_SERVERS="3", SHOAL_TIMEOUT="3")
    for kind, message, seconds in run_ranks(2, connect_and_measure, environment=environment, init=False):
        assert kind == "DistBackendError" and "2" in message and "3" in message, message
        assert seconds < 15


def test_missing_library():
    environment = {"SHOAL_LIBRARY": "/nonexistent/libshoal.so"}
    for kind, message, _ in run_ranks(2, connect_and_measure, environment=environment, init=False):
        assert kind == "DistBackendError" and "/nonexistent/libshoal.so" in message and "SHOAL_LIBRARY" in message


def test_value_that_makes_no_sense():
    for kind, message, _ in run_ranks(2, connect_and_measure, environment={"SHOAL_CHUNK_BYTES": "big"}, init=False):
        assert kind == "ValueError" and "SHOAL_CHUNK_BYTES='big'" in message


def connect_with_a_scheduler_for_one_rank(make_group, ranks_seen: str) -> str:
    """Ranks are told apart by who comes first: the file can be made once."""
    try:
        os.close(os.open(ranks_seen, os.O_CREAT | os.O_EXCL))
        os.environ["SHOAL_SCHEDULER"] = "elsewhere:1"
    except FileExistsError:
        pass
    return connect_and_measure(make_group)[1]


def test_ranks_with_different_schedulers(tmp_path):
    function = connect_with_a_scheduler_for_one_rank
    for message in run_ranks(2, function, str(tmp_path / "seen"), environment={"SHOAL_TIMEOUT": "10"}, init=False):
        assert "elsewhere:1" in message and "same value on all ranks" in message, message


def wait_for_a_lost_rank() -> str:
    reduce_once()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    try:
        for _ in range(3):
            dist.all_reduce(torch.ones(100_000))
    except dist.DistBackendError as error:
        return f"{time.monotonic() - started:.1f} {error}"
    return "no error"


def test_a_killed_rank_fails_the_others_by_name(cluster):
    results = run_ranks(3, wait_for_a_lost_rank, environment=cluster.environment(), expect_failures=True)
    assert isinstance(results[1], Failure) and results[1].kind == "Died"
    for rank in (0, 2):
        assert isinstance(results[rank], str), results[rank]
        seconds, message = results[rank].split(" ", 1)
        assert float(seconds) < 40, "later than any lease"
        assert "rank 1" in message or "ranks 1" in message, message


def wait_for_a_late_rank() -> str:
    if dist.get_rank() == 1:
        dist.barrier()
        return "late"
    try:
        work = dist.group.WORLD.allreduce([torch.ones(10)], all_reduce_options(seconds=2))
        work.wait()
        message = "no error"
    except dist.DistBackendError as error:
        message = str(error)
    dist.barrier()
    return message


def all_reduce_options(seconds: float) -> dist.AllreduceOptions:
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=seconds)
    return options


def test_f14_a_rank_that_does_not_call_is_named_when_time_is_over(cluster):
    message = run_ranks(2, wait_for_a_late_rank, environment=cluster.environment())[0]
    assert "DEADLINE" in message.upper() or "rank 1" in message, message
    assert "1" in message


def abort_the_group() -> str:
    reduce_once()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.set("first is done", "1")
        store.wait(["aborted"])
    work = dist.all_reduce(torch.ones(10), async_op=True)
    if dist.get_rank() == 0:
        store.wait(["first is done"])
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        store.set("aborted", "1")
    try:
        work.wait()
        # Rank 0 had begun this one before it gave the group up, so it may end well here. None ends well after it.
        dist.all_reduce(torch.ones(10))
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_abort_ends_the_group_on_all_ranks(cluster):
    for message in run_ranks(2, abort_the_group, environment=cluster.environment()):
        assert "abort" in message, message


def wait_with_a_short_patience() -> str:
    if dist.get_rank() == 1:
        dist.barrier()
        reduce_once()
        return ""
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    try:
        work.wait(datetime.timedelta(milliseconds=50))
        message = "no error"
    except RuntimeError as error:
        message = str(error)
    dist.barrier()
    work.wait()  # the patience was the caller's: the all-reduce itself goes on
    assert (tensor == 2).all()
    return message


def test_wait_with_a_timeout_leaves_the_work_alone(cluster):
    assert "timed out" in run_ranks(2, wait_with_a_short_patience, environment=cluster.environment())[0]


def shoal_statistics_without_a_job(make_group) -> dict:
    return shoal.statistics()


def test_statistics_without_a_job_are_empty():
    assert run_ranks(1, shoal_statistics_without_a_job, init=False) == [{}]
