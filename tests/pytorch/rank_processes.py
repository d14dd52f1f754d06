"""Runs a function on N ranks of a process group, each in a process of its own.

The processes come from a fork server that has torch loaded, so that starting one takes milliseconds. All of them are
ended when one fails or the time is over; what they raised is in the assertion.
"""

import ctypes
import dataclasses
import datetime
import functools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist

RUN_SECONDS = 300
GROUP_TIMEOUT = datetime.timedelta(seconds=60)


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a rank raised. With expect_failures=True it is the rank's result."""

    kind: str
    message: str
    trace: str


def run_ranks(
    world_size: int,
    function: Callable,
    *arguments: object,
    environment: Mapping[str, str] = {},
    backend: str = "shoal",
    init: bool = True,
    expect_failures: bool = False,
    timeout_seconds: float = RUN_SECONDS,
) -> list:
    """Returns function(*arguments) of each rank. It is called within the process group `backend`, unless `init` is
    false: then it gets a callable that makes the group as its first argument. A rank that dies without a word is a
    Failure."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = _fork_server()
    processes, pipes = [], []
    for rank in range(world_size):
        receiver, sender = context.Pipe(duplex=False)
        call = (rank, world_size, store.port, dict(environment), backend, init, function, arguments, sender)
        process = context.Process(target=_run_rank, args=call)
        process.start()
        sender.close()
        processes.append(process)
        pipes.append(receiver)
    try:
        results = _collect(pipes, time.monotonic() + timeout_seconds, stop_at_failure=not expect_failures)
        if not any(isinstance(result, Failure) for result in results):
            for rank, process in enumerate(processes):
                process.join(20)
                assert process.exitcode == 0, f"rank {rank} had a result and then exit code {process.exitcode}"
    finally:
        for process in processes:
            process.kill()
            process.join()
    failures = [f"rank {rank}: {result.trace}" for rank, result in enumerate(results) if isinstance(result, Failure)]
    assert expect_failures or not failures, "\n".join(failures)
    return results


def say(word: str) -> None:
    """For ranks' turns in a test: what a rank says, others hear, by the store of the default group."""
    dist.distributed_c10d._get_default_store().set(word, "said")


def hear(word: str) -> None:
    """Waits until a rank says the word, for GROUP_TIMEOUT."""
    dist.distributed_c10d._get_default_store().wait([word], GROUP_TIMEOUT)


def monitored_barrier(timeout: datetime.timedelta = GROUP_TIMEOUT) -> None:
    """Of the default group. The function of torch.distributed refuses groups but Gloo's own in torch 2.11."""
    dist.distributed_c10d._get_default_group().monitored_barrier(timeout, False)


@functools.cache
def _fork_server() -> multiprocessing.context.BaseContext:
    # One thread, also in the threads that run callbacks: the bits of a matrix product depend on the number of threads.
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    # torch.testing imports torch.distributed.tensor and SymPy when it compares for the first time: for seconds.
    modules = ["torch", "torch.distributed", "torch.distributed.tensor", "torch.nn.parallel", "shoal"]
    context.set_forkserver_preload(modules)
    return context


def _collect(pipes: list, deadline: float, stop_at_failure: bool) -> list:
    timed_out = Failure("Timeout", "no result in time", "no result in time")
    results: list = [timed_out] * len(pipes)
    waiting = dict(zip(pipes, range(len(pipes))))
    while waiting and time.monotonic() < deadline:
        for pipe in multiprocessing.connection.wait(list(waiting), timeout=deadline - time.monotonic()):
            rank = waiting.pop(pipe)
            try:
                results[rank] = pickle.loads(pipe.recv_bytes())
            except EOFError:
                results[rank] = Failure(
                    "Died", "the process ended without a result", "the process ended without a result"
                )
            if stop_at_failure and isinstance(results[rank], Failure):
                return results
    return results


def _run_rank(
    rank: int, world_size: int, store_port: int, environment: dict, backend: str, init: bool,
    function: Callable, arguments: tuple, sender: multiprocessing.connection.Connection,
) -> None:  # fmt: skip
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)  # the fork server ends with the tests
    for name in [name for name in os.environ if name.startswith("SHOAL_") and name != "SHOAL_LIBRARY"]:
        del os.environ[name]
    os.environ.update({"SHOAL_FLIGHT_RECORDER": "off"} | environment)  # groups fail on purpose
    # For what a function does before there is a group.
    os.environ |= {"TEST_RANK": str(rank), "TEST_RANKS": str(world_size)}
    torch.set_num_threads(1)

    def make_group() -> None:
        store = dist.TCPStore("127.0.0.1", store_port, is_master=False, timeout=GROUP_TIMEOUT)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=GROUP_TIMEOUT)

    try:
        if init:
            # A rank whose connections of Gloo stand may end its group while others still wait for theirs, which then
            # fail: so none starts before all have the group.
            os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
            make_group()
            del os.environ["TORCH_DIST_INIT_BARRIER"]
            result = function(*arguments)
        else:
            result = function(make_group, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException as error:
        result = Failure(type(error).__name__, str(error), traceback.format_exc())
    sender.send_bytes(pickle.dumps(result))  # send() would share tensors with a process that ends
