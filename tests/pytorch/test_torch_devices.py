"""Tensors on devices are reduced without the host waiting: the plugin as it is, on torch's CUDA devices over the
simulated driver (simulated_torch_cuda.cc), or on a GPU with TEST_ON_GPU=1. More for a GPU alone: test_torch_cuda.py."""

import datetime
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import device_under_test
import pytest
import torch
import torch.distributed as dist
from rank_processes import Failure, hear, run_ranks, say

SUCCESS, TIMEOUT, COMM_ERROR = range(3)  # c10d::WorkResult
ELEMENTS = 100_003  # some chunks, and no round number


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    device_under_test.build()


def reduce_behind_a_held_stream(make_group) -> float:
    cuda = device_under_test.load()
    device_under_test.use_devices()
    make_group()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    gate = cuda.hold_stream()
    opener = threading.Timer(5, gate.open)
    opener.start()
    begin = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    seconds = time.monotonic() - begin
    opener.cancel()
    gate.open()
    work.wait()
    assert (cuda.on_host(tensor) == 2).all()
    return seconds


def test_the_first_reduction_on_a_device_that_is_in_use_waits_for_nothing_there(cluster):
    environment = cluster.environment() | device_under_test.ENVIRONMENT
    for seconds in run_ranks(2, reduce_behind_a_held_stream, init=False, environment=environment):
        assert seconds < 2


def is_poisoned(tensor: torch.Tensor) -> bool:
    return bool(device_under_test.load().on_host(tensor).isnan().all())


def reduce_what_is_written_late() -> None:
    cuda, rank, ranks = device_under_test.load(), dist.get_rank(), dist.get_world_size()
    device_under_test.reduce_first(cuda)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        tensor = cuda.on_device(torch.zeros(ELEMENTS, dtype=dtype))
        gate = cuda.hold_stream()
        cuda.fill(tensor, rank + 1)  # runs long after the call below
        dist.all_reduce(tensor)
        cuda.scale(tensor, 2)  # ordered behind the result by stream alone
        gate.open()
        assert (cuda.on_host(tensor) == 2 * sum(range(1, ranks + 1))).all(), dtype


def test_a_reduction_comes_after_what_writes_the_tensor_and_before_what_reads_it(settings):
    run_ranks(2, reduce_what_is_written_late, environment=settings)


def seconds_of_wait(tensor: torch.Tensor) -> float:
    """Of a reduction that is under way, with the next kernel behind it."""
    cuda = device_under_test.load()
    work = dist.all_reduce(tensor, async_op=True)
    begin = time.perf_counter()
    work.wait()
    seconds = time.perf_counter() - begin
    cuda.scale(tensor, 3)
    assert not work.is_completed()
    return seconds


def wait_while_another_rank_is_late() -> list[float]:
    cuda, rank = device_under_test.load(), dist.get_rank()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    times = []
    for number in range(20):
        cuda.fill(tensor, 1)
        if rank == 1:
            hear(f"waited {number}")
            dist.all_reduce(tensor)
        else:
            times.append(seconds_of_wait(tensor))
            say(f"waited {number}")
            assert (cuda.on_host(tensor) == 6).all()
    return times


def test_wait_returns_at_once_though_another_rank_is_late(settings):
    times = run_ranks(2, wait_while_another_rank_is_late, environment=settings)[0]
    assert statistics.median(times) < 100e-6, times


def assert_returned_at_once(times: list[float]) -> None:
    """No wait took the second for which the servers stood still. What one costs shows where nobody took the processor
    from it, which on a busy machine somebody does in most of five rounds."""
    assert max(times) < 0.5, times
    assert min(times) < 100e-6, times


def wait_while_servers_stand_still(servers: tuple[int, ...]) -> list[float]:
    cuda, rank = device_under_test.load(), dist.get_rank()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    times = []
    for number in range(5):
        cuda.fill(tensor, 1)
        if rank == 0:
            for server in servers:
                os.kill(server, signal.SIGSTOP)
            begin = time.monotonic()
            say(f"stopped {number}")
        else:
            hear(f"stopped {number}")
        times.append(seconds_of_wait(tensor))
        if rank == 0:
            hear(f"waited {number}")
            time.sleep(max(0, begin + 1 - time.monotonic()))
            for server in servers:
                os.kill(server, signal.SIGCONT)
        else:
            say(f"waited {number}")
        assert (cuda.on_host(tensor) == 6).all()
    return times


def test_wait_returns_at_once_though_servers_stand_still_for_a_second(own_cluster):
    environment = own_cluster.environment() | device_under_test.ENVIRONMENT
    for times in run_ranks(2, wait_while_servers_stand_still, own_cluster.servers, environment=environment):
        assert_returned_at_once(times)


def destroy_at_once(make_group) -> None:
    cuda = device_under_test.load()
    make_group()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    for number in range(5):
        gate = cuda.hold_stream()
        cuda.fill(tensor, number)
        dist.all_reduce(tensor)
        gate.open()
    dist.destroy_process_group()
    assert (cuda.on_host(tensor) == 8).all()


def test_a_group_that_is_destroyed_right_after_a_call_ends_it_well(settings):
    run_ranks(2, destroy_at_once, init=False, environment=settings)


def use_futures() -> None:
    cuda, rank, ranks = device_under_test.load(), dist.get_rank(), dist.get_world_size()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    if rank == 0:
        future = dist.all_reduce(tensor, async_op=True).get_future()
        assert future.done()  # as a future of NCCL's: it is ordered by stream

        def double(done: torch.futures.Future) -> torch.Tensor:
            cuda.scale(done.value()[0], 2)
            return done.value()[0]

        doubled = future.then(double)
        say("called back")
        assert (cuda.on_host(doubled.wait()) == 2 * ranks).all()
    else:
        hear("called back")
        work = dist.all_reduce(tensor, async_op=True)
        assert work.get_future_result().wait() == SUCCESS  # when the op has ended
        assert work.is_completed() and work.is_success()
        assert (cuda.on_host(work.result()[0]) == ranks).all()  # nothing orders this stream but the end of the op


def test_futures_are_complete_at_the_call_and_their_callbacks_see_the_sum(settings):
    run_ranks(2, use_futures, environment=settings)


def drop_and_write_over() -> None:
    cuda, rank, ranks = device_under_test.load(), dist.get_rank(), dist.get_world_size()
    device_under_test.reduce_first(cuda)
    kept = []
    for number in range(40):
        tensor = cuda.on_device(torch.zeros(101, 107))
        gate = cuda.hold_stream()
        cuda.fill(tensor, number)
        if rank == 0:
            dist.all_reduce(tensor.t() if number % 2 else tensor, async_op=True)
            del tensor
            cuda.fill(cuda.empty_like(torch.empty(101, 107)), -1000)  # writes over freed memory, if there is some
            gate.open()
        else:
            gate.open()
            tensor = tensor.t() if number % 2 else tensor
            kept.append((number, tensor, dist.all_reduce(tensor, async_op=True)))
    for number, tensor, work in kept:
        work.wait()
        assert (cuda.on_host(tensor) == number * ranks).all(), number


def test_memory_of_dropped_tensors_is_not_used_again_before_they_are_reduced(settings):
    run_ranks(2, drop_and_write_over, environment=settings)


def drop_works_of_strided_tensors() -> None:
    cuda, ranks = device_under_test.load(), dist.get_world_size()
    kept = []
    for number in range(30):
        strided = cuda.on_device(torch.full((101, 107), float(number))).t()
        dist.all_reduce(strided, async_op=True).get_future_result().wait()
        for _ in range(4):  # write over the contiguous copy that was reduced, if its memory is free
            cuda.fill(cuda.empty_like(torch.empty(101, 107)), -1000)
        kept.append(strided)
    dist.all_reduce(cuda.on_device(torch.ones(1)))  # comes after all of them in their stream
    for number, strided in enumerate(kept):
        assert (cuda.on_host(strided) == number * ranks).all(), number


def test_the_copy_of_a_strided_tensor_is_not_used_again_before_it_was_copied_back(settings):
    run_ranks(2, drop_works_of_strided_tensors, environment=settings)


def mix() -> None:
    cuda, ranks = device_under_test.load(), dist.get_world_size()
    on_device = cuda.on_device(torch.ones(ELEMENTS))
    first = dist.all_reduce(on_device, async_op=True)
    on_host = torch.ones(ELEMENTS)
    second = dist.all_reduce(on_host, async_op=True)
    second.wait()
    first.wait()
    assert (cuda.on_host(on_device) == ranks).all() and (on_host == ranks).all()
    matrix = torch.arange(12.0).reshape(3, 4)
    transposed = cuda.on_device(matrix).t()
    dist.all_reduce(transposed)
    assert torch.equal(cuda.on_host(transposed), matrix.t() * ranks)
    short = cuda.on_device(torch.full((300,), 5, dtype=torch.int16))
    if os.environ["SHOAL_NODE_REDUCE"] == "nccl":  # which does not know it
        with pytest.raises(TypeError, match=r"int16 tensor on a CUDA device.*\.to\(torch\.int32\)"):
            dist.all_reduce(short)
    else:
        dist.all_reduce(short)
        assert (cuda.on_host(short) == 5 * ranks).all()
    after = cuda.on_device(torch.ones(7))
    dist.all_reduce(after)
    assert (cuda.on_host(after) == ranks).all()
    several = [cuda.on_device(torch.full((count,), 1.0)) for count in (3, 70_000, 5)]
    with torch.inference_mode():
        dist.all_reduce_coalesced([*several, cuda.on_device(torch.empty(0))])
    assert all((cuda.on_host(tensor) == ranks).all() for tensor in several)
    dist.all_reduce(cuda.on_device(torch.empty(0)))
    average = cuda.on_device(torch.full((9,), float(dist.get_rank())))
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    assert (cuda.on_host(average) == (ranks - 1) / 2).all()


def test_tensors_on_host_and_device_strided_and_empty_ones_and_several_at_once(settings):
    run_ranks(2, mix, environment=settings)


def use_streams_and_devices() -> None:
    cuda, rank, ranks = device_under_test.load(), dist.get_rank(), dist.get_world_size()
    device_under_test.reduce_first(cuda)
    busy = cuda.hold_stream()  # the default stream does not matter to a side stream
    factor = 2 + rank  # a common one gave the same on all ranks if it came before the sum
    with device_under_test.stream(cuda.make_stream()):
        tensor = cuda.on_device(torch.ones(ELEMENTS))
        dist.all_reduce(tensor)
        cuda.scale(tensor, factor)
        assert (cuda.on_host(tensor) == factor * ranks).all()
        if os.environ["SHOAL_NODE_REDUCE"] == "off" and cuda.devices > 1:  # by NCCL a group has one device of each rank
            tensor = cuda.on_device(torch.ones(ELEMENTS), device=1)
            dist.all_reduce(tensor)
            cuda.scale(tensor, factor)
            assert (cuda.on_host(tensor) == factor * ranks).all()
        tensor = cuda.on_device(torch.ones(ELEMENTS))
        work = dist.all_reduce(tensor, async_op=True)
        work.block_current_stream()
        cuda.scale(tensor, factor)
        assert (cuda.on_host(tensor) == factor * ranks).all()
    busy.open()


def test_side_streams_and_several_devices_of_a_process(settings):
    run_ranks(2, use_streams_and_devices, environment=settings)


def reduce_in_another_group_meanwhile(make_group) -> bool:
    """Whether the one group's reduction ended before what the other group's waits for."""
    cuda = device_under_test.load()
    make_group()
    held_group, free_group = dist.new_group(), dist.new_group()
    held, free = cuda.on_device(torch.ones(ELEMENTS)), cuda.on_device(torch.ones(ELEMENTS))
    for tensor, group in ((held, held_group), (free, free_group)):
        for _ in range(2):  # in turns on two streams
            dist.all_reduce(tensor, group=group)
        cuda.synchronize()
    with device_under_test.stream(cuda.make_stream()):
        gate = cuda.hold_stream()
        work = dist.all_reduce(held, group=held_group, async_op=True)
    opener = threading.Timer(10, gate.open)
    opener.start()
    with device_under_test.stream(cuda.make_stream()):
        dist.all_reduce(free, group=free_group)
        assert (cuda.on_host(free) == 8).all()
    was_held = opener.is_alive()
    opener.cancel()
    gate.open()
    work.wait()
    assert (cuda.on_host(held) == 8).all()
    return was_held


def test_a_group_does_not_wait_for_what_another_groups_tensor_waits_for(cluster):
    environment = cluster.environment() | device_under_test.ENVIRONMENT
    assert run_ranks(2, reduce_in_another_group_meanwhile, init=False, environment=environment) == [True, True]


def refuse_dtypes() -> list[str]:
    cuda = device_under_test.load()
    messages = []
    for dtype in (torch.uint16, torch.uint64, torch.float8_e8m0fnu):
        with pytest.raises(TypeError) as refused:
            dist.all_reduce(cuda.on_device(torch.ones(4).to(dtype)))
        messages.append(str(refused.value))
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)  # the ranks still agree on which one is the next
    assert (cuda.on_host(tensor) == 2).all()
    return messages


def test_dtypes_that_nobody_can_sum_are_refused_by_name(settings):
    for messages in run_ranks(2, refuse_dtypes, environment=settings):
        for name, message in zip(("uint16", "uint64", "float8_e8m0fnu"), messages, strict=True):
            assert f"torch.{name} tensor, which neither the servers nor" in message, message
            assert ".to(torch." in message, message


def lose_a_rank() -> tuple[str, str]:
    cuda, rank = device_under_test.load(), dist.get_rank()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)
    if rank == 1:
        hear("called")
        dist.distributed_c10d._get_default_group().abort()
        return "", ""
    failing = cuda.on_device(torch.ones(ELEMENTS))
    strided = cuda.on_device(torch.ones(300, 7)).t()
    first = dist.all_reduce(failing, async_op=True)
    first.wait()  # no error yet: the host does not wait
    dist.all_reduce(strided)
    say("called")
    assert is_poisoned(failing) and is_poisoned(strided)
    assert first.get_future_result().wait() == COMM_ERROR
    with pytest.raises(dist.DistBackendError) as own:
        first.wait()
    assert not first.is_success()
    if not torch.__version__.startswith("2.11."):  # which can't give it to Python
        assert str(first.exception()) == str(own.value)
    with pytest.raises(dist.DistBackendError) as later:
        dist.all_reduce(failing)
    return str(own.value), str(later.value)


def test_a_failed_reduction_fills_tensors_with_nan_and_the_next_one_raises(settings):
    own, later = run_ranks(2, lose_a_rank, environment=settings)[0]
    assert "rank 1" in own and "aborted" in own
    assert "rank 1" in later


def lose_a_rank_and_wait_for_it() -> None:
    cuda, rank = device_under_test.load(), dist.get_rank()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)
    assert (cuda.on_host(tensor) == 2).all()
    if rank == 1:
        hear("called")
        dist.distributed_c10d._get_default_group().abort()
        return
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()  # what DistributedDataParallel waits for
    assert not future.done()
    say("called")
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        work.wait()
    with pytest.raises(RuntimeError, match="rank 1"):
        future.wait()


def test_with_blocking_wait_the_failed_reduction_itself_raises(settings):
    run_ranks(2, lose_a_rank_and_wait_for_it, environment=settings | {"SHOAL_BLOCKING_WAIT": "1"})


def never_end(make_group) -> tuple[int, str, float]:
    cuda = device_under_test.load()
    make_group()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    gate = cuda.hold_stream()
    options = dist.distributed_c10d.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=1)
    work = dist.distributed_c10d._get_default_group().allreduce([tensor], options)
    work.wait()  # the host does not wait, so there is no error yet
    result = work.get_future_result().wait()
    with pytest.raises(dist.DistBackendError) as failed:
        work.wait()
    begin = time.monotonic()
    dist.destroy_process_group()
    seconds = time.monotonic() - begin
    gate.open()  # so that the process can end
    return result, str(failed.value), seconds


def test_a_kernel_without_an_end_fails_the_reduction_at_its_deadline_and_shutdown_returns(settings):
    results, messages, seconds = zip(*run_ranks(2, never_end, init=False, environment=settings))
    assert TIMEOUT in results  # the one whose deadline comes first ends the other's
    assert all("device" in message for message in messages)
    assert max(seconds) < 5


def destroy_while_a_kernel_never_ends(make_group) -> float:
    cuda = device_under_test.load()
    make_group()
    groups = [dist.group.WORLD, dist.new_group()]
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    for group in groups:
        for _ in range(2):  # in turns on two streams
            dist.all_reduce(tensor, group=group)
        cuda.synchronize()
    gate = cuda.hold_stream()
    works = [dist.all_reduce(tensor, group=group, async_op=True) for group in groups]
    for work in works:
        work.wait()
    begin = time.monotonic()
    dist.destroy_process_group()  # of both groups, long before the reductions' deadlines
    seconds = time.monotonic() - begin
    gate.open()  # so that the process can end
    return seconds


def test_shutdown_returns_before_the_deadlines_of_reductions_behind_a_kernel_without_an_end(settings):
    times = run_ranks(2, destroy_while_a_kernel_never_ends, init=False, environment=settings)
    assert max(times) < 5, times


def capture() -> str:
    cuda = device_under_test.load()
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    with tempfile.TemporaryFile() as written, device_under_test.stream(cuda.make_stream()):
        os.dup2(written.fileno(), sys.stderr.fileno())
        cuda.begin_capture()
        for _ in range(2):
            with pytest.raises(RuntimeError):  # the inner backend is Gloo here, which finds no GPU
                dist.all_reduce(tensor)
        written.seek(0)
        return written.read().decode()


@pytest.mark.skipif(device_under_test.ON_GPU, reason="a real device has NCCL as its inner backend: test_torch_cuda.py")
def test_a_captured_reduction_is_the_inner_backends_and_says_so_once(settings):
    for text in run_ranks(2, capture, environment=settings):
        assert text.count("captured into a CUDA graph is reduced by the inner backend") == 1


def call_many() -> None:
    cuda, ranks = device_under_test.load(), dist.get_world_size()
    tensors = [cuda.on_device(torch.full((16,), float(number))) for number in range(1500)]  # more than fit at a time
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True).wait()
    for number, tensor in enumerate(tensors):
        assert (cuda.on_host(tensor) == number * ranks).all()


def test_a_call_waits_where_too_many_reductions_are_under_way(settings):
    run_ranks(2, call_many, environment=settings)


def first_and_last_error(reduce: Callable[[], object]) -> tuple[str, str]:
    """Of calls of a group that fails: the first one's, and the one that names rank 0, which is told as soon as it has
    come from there."""
    messages = []
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with pytest.raises(RuntimeError) as failed:
            reduce()
        messages.append(str(failed.value))
        if "rank 0" in messages[-1]:
            break
        time.sleep(0.05)
    return messages[0], messages[-1]


def refuse(function: str, calls: int, number_of_tensors: int) -> tuple[str, str]:
    """The driver refuses rank 0 the function at its first reduction. Its next ones have the same size."""
    cuda = device_under_test.load()
    tensors = [cuda.on_device(torch.ones(ELEMENTS)) for _ in range(number_of_tensors)]
    for _ in range(calls if dist.get_rank() == 0 else 0):
        cuda.refuse_next(function)
    if number_of_tensors == 1:
        return first_and_last_error(lambda: dist.all_reduce(tensors[0]))
    return first_and_last_error(lambda: dist.all_reduce_coalesced(tensors))


@pytest.mark.skipif(device_under_test.ON_GPU, reason="a real driver is not told to refuse")
@pytest.mark.parametrize("number_of_tensors", [1, 2])
# Before the plugin torch's own flight recorder asks whether the stream is captured, and goes on without an answer.
@pytest.mark.parametrize(("function", "calls"), [("cuMemHostRegister", 1), ("cuStreamIsCapturing", 2)])
def test_a_rank_whose_driver_refuses_fails_the_group_instead_of_shifting_it(
    settings, function, calls, number_of_tensors
):
    blocking = settings | {"SHOAL_BLOCKING_WAIT": "1"}
    of_rank_0, of_rank_1 = run_ranks(2, refuse, function, calls, number_of_tensors, environment=blocking)
    assert function in of_rank_0[0], of_rank_0
    assert function in of_rank_1[1] and "rank 0" in of_rank_1[1], of_rank_1


def reduce_on_another_device() -> tuple[str, str]:
    cuda, rank = device_under_test.load(), dist.get_rank()
    device_under_test.reduce_first(cuda)
    tensor = cuda.on_device(torch.ones(ELEMENTS), device=1 if rank == 0 else 0)
    return first_and_last_error(lambda: dist.all_reduce(tensor))


@pytest.mark.skipif(device_under_test.ON_GPU, reason="a real device is the only one that a rank of these tests uses")
def test_by_nccl_a_tensor_on_another_device_of_the_rank_is_an_error_on_all_ranks(cluster):
    environment = cluster.environment() | device_under_test.ON_NODES | {"SHOAL_BLOCKING_WAIT": "1"}
    of_rank_0, of_rank_1 = run_ranks(2, reduce_on_another_device, environment=environment)
    for part in ("were on device 0", "this one is on device 1", "Make another group"):
        assert part in of_rank_0[0], of_rank_0
        assert part in of_rank_1[1], of_rank_1
    assert "rank 0" in of_rank_1[1], of_rank_1


KEPT = []  # torch ends the process that frees memory which several streams have used on a device that has failed


def fail_device() -> None:
    cuda, rank = device_under_test.load(), dist.get_rank()
    tensor, strided = cuda.on_device(torch.ones(ELEMENTS)), cuda.on_device(torch.ones(300, 7)).t()
    KEPT.extend([tensor, strided])
    dist.all_reduce(tensor)
    cuda.synchronize()
    if rank == 0:
        dist.all_reduce(strided, async_op=True)  # its contiguous copy is let go of by a thread of the plugin
        cuda.fail()
        say("failed")
    else:
        hear("failed")
        dist.all_reduce(strided, async_op=True)
    for _ in range(100):
        dist.all_reduce(tensor)
        time.sleep(0.1)


def check_that_it_fails_on_all_ranks(environment: dict[str, str]) -> None:
    results = run_ranks(2, fail_device, environment=environment, expect_failures=True)
    assert isinstance(results[0], Failure)
    assert device_under_test.ERROR_OF_A_FAILED_DEVICE in results[0].message
    assert isinstance(results[1], Failure) and "rank 0" in results[1].message


def test_a_device_that_fails_is_an_error_on_all_ranks(settings):
    check_that_it_fails_on_all_ranks(settings)


def test_a_device_that_fails_is_an_error_on_all_ranks_with_blocking_wait(settings):
    check_that_it_fails_on_all_ranks(settings | {"SHOAL_BLOCKING_WAIT": "1"})
