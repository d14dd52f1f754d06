"""Tensors on devices before shoalctl, which compares results, before the guard against NaN, in inference mode and
before barriers, and what waiting for devices costs; on torch's CUDA devices over the simulated driver, or on a GPU with
TEST_ON_GPU=1."""

import datetime
import functools
import gc
import os
import pathlib
import re
import subprocess
import threading
import time

import device_under_test
import pytest
import shoal
import torch
import torch.distributed as dist
from rank_processes import hear, monitored_barrier, run_ranks, say
from torch.distributed.device_mesh import init_device_mesh

LATE_SECONDS = 0.5
MONITORED_TIMEOUT = datetime.timedelta(seconds=5)
ELEMENTS = 100_003  # some chunks, and no round number
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOALCTL = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")) / "shoalctl"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    device_under_test.build()


def reduce_while_compared(scheduler: str) -> str:
    """Tensors in host memory and on a device take turns meanwhile. What shoalctl says, of rank 0."""
    cuda = device_under_test.load()
    device_under_test.reduce_first(cuda)
    tensors = [torch.ones(1000), cuda.on_device(torch.ones(1000))]
    ended = torch.zeros(1)
    command = [str(SHOALCTL), "--scheduler", scheduler, "verify", os.environ["SHOAL_JOB_NAME"], "--seconds", "2"]
    verify = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if dist.get_rank() == 0 else None
    while ended.item() == 0:
        for tensor in tensors:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        cuda.synchronize()
        if verify is not None and verify.poll() is not None:
            ended.fill_(1)
        dist.broadcast(ended, 0)
    return "" if verify is None else verify.communicate()[0]


def test_a_comparison_of_results_says_how_many_were_on_devices(cluster, settings):
    [said, _] = run_ranks(2, reduce_while_compared, cluster.scheduler, environment=settings)
    assert re.search(r"^[1-9]\d* all-reduces of \d+ groups? compared over 2 ranks: each has the same bits", said), said
    on_devices = r"on devices are not compared: [1-9]\d* of rank 0 on \S+, [1-9]\d* of rank 1 on \S+\."
    assert re.search(on_devices, said), said


def reduce_with_a_guard(make_group) -> str:
    """The error of a contribution with NaN."""
    cuda = device_under_test.load()
    make_group()
    tensor = cuda.on_device(torch.full((107, 101), 0.5)).t()
    dist.all_reduce(tensor)
    assert (cuda.on_host(tensor) == 1).all()
    monitored_barrier()  # over Gloo: an abort ends ops that other ranks are not done with
    contribution = torch.full((ELEMENTS,), 0.5)
    if dist.get_rank() == 1:
        contribution[ELEMENTS - 7] = torch.nan
    with pytest.raises(dist.DistBackendError) as failed:
        dist.all_reduce(cuda.on_device(contribution))
        cuda.synchronize()
        monitored_barrier()  # raises what the host has not heard
    return str(failed.value)


def test_with_a_guard_against_nan_tensors_on_devices_are_looked_at_as_well(settings):
    environment = settings | {"SHOAL_CHECK_FINITE": "1"}
    messages = run_ranks(2, reduce_with_a_guard, init=False, environment=environment)
    # NCCL's kernels may have been ended before the reason came.
    if settings["SHOAL_NODE_REDUCE"] == "nccl" and "another rank is gone, or left" in messages[0]:
        messages.pop(0)
    for message in messages:
        assert "the contribution of rank 1 of the job to all-reduce" in message, message
        assert f"({ELEMENTS} Float) has NaN at element {ELEMENTS - 7}" in message, message


def wait_for_a_held_stream() -> float:
    """Seconds of processor time that this process takes in a second in which its reduction waits for the device."""
    cuda = device_under_test.load()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    gate = cuda.hold_stream()
    work = dist.all_reduce(tensor, async_op=True)
    time.sleep(0.1)
    begin = time.process_time()
    time.sleep(1)
    taken = time.process_time() - begin
    gate.open()
    work.wait()
    assert (cuda.on_host(tensor) == 2).all()
    return taken


def test_waiting_for_a_device_keeps_no_core_busy(settings):
    assert max(run_ranks(2, wait_for_a_held_stream, environment=settings)) < 0.3


def reduce_in_inference_mode() -> None:
    """Tensors that can be written in place nowhere but in inference mode."""
    cuda = device_under_test.load()
    with torch.inference_mode():
        tensors = [cuda.on_device(torch.ones(101, 107)), cuda.on_device(torch.ones(101, 107)).t()]
        dist.all_reduce(tensors[0])
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    assert all(tensor.is_inference() for tensor in tensors)
    for work in works:
        work.wait()
    assert (cuda.on_host(tensors[0]) == 4).all() and (cuda.on_host(tensors[1]) == 2).all()


def test_tensors_of_inference_mode_are_reduced(settings):
    run_ranks(2, reduce_in_inference_mode, environment=settings)


def make_a_mesh_beside_a_bound_device(make_group) -> None:
    """As init_process_group with a device_id and then init_device_mesh do it: the mesh's groups are split off."""
    cuda = device_under_test.load()
    device_under_test.use_devices()
    device_under_test.be_found()
    device = torch.device("cuda", 1)
    dist.init_process_group = functools.partial(dist.init_process_group, device_id=device)
    make_inner = shoal.inner.inner_backends
    bound = []

    def make_and_note(options, given, address):
        # Where NCCL's creator looks, in a torch that tells it.
        if hasattr(options, "process_group"):
            bound.append(options.process_group.bound_device_id)
        return make_inner(options, given, address)

    shoal.inner.inner_backends = make_and_note
    make_group()
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("outer", "inner"))
    assert bound == ([] if torch.__version__.startswith("2.11.") else [device] * 3), bound
    before = shoal.statistics()["ops_completed"]
    for name, other in (("outer", dist.get_rank() ^ 2), ("inner", dist.get_rank() ^ 1)):
        tensor = cuda.on_device(torch.full((1000,), float(dist.get_rank())), device=device.index)
        dist.all_reduce(tensor, group=mesh.get_group(name))
        assert (cuda.on_host(tensor) == dist.get_rank() + other).all(), name
    assert shoal.statistics()["ops_completed"] == before + 2


@pytest.mark.skipif(device_under_test.ON_GPU, reason="a real device has NCCL as its inner backend: test_torch_cuda.py")
def test_a_mesh_beside_a_bound_device(cluster):
    environment = cluster.environment() | device_under_test.ENVIRONMENT
    run_ranks(4, make_a_mesh_beside_a_bound_device, init=False, environment=environment)


def call_barriers_while_a_device_is_late() -> None:
    cuda = device_under_test.load()
    tensor = cuda.on_device(torch.zeros(ELEMENTS))
    group = dist.distributed_c10d._get_default_group()
    soon = datetime.timedelta(seconds=LATE_SECONDS)
    synchronous = dist.BarrierOptions()
    synchronous.timeout, synchronous.asyncOp = soon, False
    dist.all_reduce(tensor)
    for barrier in (
        lambda: group.barrier(synchronous),
        lambda: dist.barrier(async_op=True).wait(soon),
        lambda: monitored_barrier(MONITORED_TIMEOUT),  # in which the other rank has to come as well
    ):
        gate = cuda.hold_stream()
        dist.all_reduce(tensor)
        with pytest.raises(dist.DistBackendError, match="the barrier's time is over"):
            barrier()
        threading.Timer(LATE_SECONDS, gate.open).start()
        begin = time.monotonic()
        monitored_barrier()
        assert time.monotonic() - begin > LATE_SECONDS / 2


def test_barriers_wait_for_reductions_on_devices_as_long_as_they_are_told(settings):
    run_ranks(2, call_barriers_while_a_device_is_late, environment=settings)


def lose_a_rank_before_a_barrier() -> tuple[str, ...]:
    cuda, rank = device_under_test.load(), dist.get_rank()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)
    dist.barrier()
    dist.barrier(async_op=True).wait()
    if rank == 1:
        hear("called")
        dist.distributed_c10d._get_default_group().abort()
        return ()
    dist.all_reduce(tensor)  # no error yet
    barrier = dist.barrier(async_op=True)
    assert not barrier.is_completed()
    say("called")
    with pytest.raises(dist.DistBackendError) as first:
        barrier.wait()
    if not torch.__version__.startswith("2.11."):  # which can't give it to Python
        assert "rank 1" in str(barrier.exception())
    del barrier
    gc.collect()
    cuda.synchronize()
    for _ in range(20):  # also when the plugin's threads have let go of the all-reduce
        with pytest.raises(dist.DistBackendError) as later:
            dist.barrier()
        time.sleep(0.01)
    with pytest.raises(dist.DistBackendError) as monitored:
        monitored_barrier()
    return str(first.value), str(later.value), str(monitored.value)


def test_a_barrier_has_the_error_of_a_reduction_that_nobody_else_has_heard_of(settings):
    messages = run_ranks(2, lose_a_rank_before_a_barrier, environment=settings)[0]
    assert len(messages) == 3
    for message in messages:
        assert "all-reduce" in message and "rank 1" in message and "aborted" in message
