"""torch's reconfigure: the ranks of a process group are exchanged while it lives, and some of them die.

What torch asks of every backend runs on Gloo as well, as control. torch before 2.14 has no reconfigure.
"""

import datetime
import os
import re
import signal
import threading
import time
from collections.abc import Callable

import device_under_test
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import shoal
from changing_group import ELEMENTS, LEASE_S, TIMEOUT, Group, check_collectives, run
from hosts.process import TIME_FACTOR
from rank_processes import Failure, run_ranks

if not hasattr(dist.ProcessGroup, "reconfigure"):
    pytest.skip(f"torch {torch.__version__} has no reconfigure", allow_module_level=True)

from torch._C._distributed_c10d import ErrorType

LARGE = 16 << 20  # elements: more than the servers have slots for

# From the kill of a process to the error of the others' ops: no lease is over by then.
TOLD_WITHIN_S = 1 * TIME_FACTOR

BACKENDS = pytest.mark.parametrize("backend", ["gloo", "shoal"])


def change_often(_make_group: Callable, store_port: int, backend: str) -> None:
    group = Group(store_port, backend)
    world = dist.group.WORLD
    rosters = [[0, 1, 2], [2, 0], [1, 2, 0], [0, 2, 1], [0], [0, 1], [1], [0, 1, 2]]
    for uuid, processes in enumerate(rosters, start=10):
        if group.process in processes:
            group.become(uuid, processes)
            check_collectives(processes, group.process)
        group.all_hear(f"over {uuid}", 3)
    assert dist.group.WORLD is world


@BACKENDS
def test_ranks_come_and_go_in_any_order_and_number(cluster, store, backend):
    run(cluster, store, 3, change_often, backend)


def part_and_meet(_make_group: Callable, store_port: int, backend: str) -> None:
    group = Group(store_port, backend)
    part = [group.process // 2 * 2, group.process // 2 * 2 + 1]
    group.become(group.process // 2, part)  # both at a time, and nobody in common
    check_collectives(part, group.process)
    group.all_hear("parted", 4)
    group.become(10, [0, 1, 2, 3])
    check_collectives([0, 1, 2, 3], group.process)


@BACKENDS
def test_groups_that_have_no_rank_in_common_become_one(cluster, store, backend):
    run(cluster, store, 4, part_and_meet, backend)


def give_a_set(_make_group: Callable, store_port: int, backend: str) -> int:
    group = Group(store_port, backend)
    group.become(1, [0, 1, 2], in_order=False)
    tensor = torch.full((ELEMENTS,), group.process + 1.0)
    dist.all_reduce(tensor)
    assert (tensor == 6).all()
    return dist.get_rank()


@BACKENDS
def test_handles_without_an_order_give_each_rank_a_number_of_its_own(cluster, store, backend):
    assert sorted(run(cluster, store, 3, give_a_set, backend)) == [0, 1, 2]


def use_a_uuid_again(_make_group: Callable, store_port: int, backend: str) -> None:
    group = Group(store_port, backend)
    group.become(1, [0, 1])
    handles = group.handles("again", [0, 1])
    if group.process == 0:
        with pytest.raises(RuntimeError, match="already used"):
            dist._reconfigure(1, handles, timeout=TIMEOUT)
    group.all_hear("refused", 2)
    check_collectives([0, 1], group.process)  # what was there goes on


@BACKENDS
def test_a_uuid_is_refused_the_second_time_and_nothing_is_torn_down(cluster, store, backend):
    run(cluster, store, 2, use_a_uuid_again, backend)


def abort_and_go_on(_make_group: Callable, store_port: int, backend: str) -> None:
    group = Group(store_port, backend)
    group.become(1, [0, 1])
    check_collectives([0, 1], group.process)
    group.backend.abort()
    assert group.backend.get_error() == ErrorType.SUCCESS
    group.all_hear("aborted", 2)
    group.become(2, [0, 1])
    check_collectives([0, 1], group.process)


@BACKENDS
def test_an_aborted_group_gets_ranks_again(cluster, store, backend):
    run(cluster, store, 2, abort_and_go_on, backend)


def lose_a_rank_inside_an_op(_make_group: Callable, store_port: int, backend: str) -> float:
    group = Group(store_port, backend)
    group.become(1, [0, 1, 2])
    check_collectives([0, 1, 2], group.process)
    if group.process == 2:
        group.say("going")
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(ELEMENTS), async_op=True)
    group.hear("going")
    begin = time.monotonic()
    with pytest.raises(RuntimeError):
        work.wait()
    seconds = time.monotonic() - begin
    if backend == "shoal":
        assert group.backend.get_error() == ErrorType.REMOTE_ERROR
    group.become(2, [1, 0])
    assert group.backend.get_error() == ErrorType.SUCCESS
    check_collectives([1, 0], group.process)
    return seconds


@BACKENDS
def test_the_others_go_on_without_a_killed_rank(cluster, store, backend):
    results = run(cluster, store, 3, lose_a_rank_inside_an_op, backend, expect_failures=True)
    assert isinstance(results[2], Failure) and results[2].kind == "Died"
    assert not any(isinstance(result, Failure) for result in results[:2]), results
    assert max(results[:2]) < TOLD_WITHIN_S


def replace_a_rank(_make_group: Callable, store_port: int, backend: str) -> None:
    process = int(os.environ["TEST_RANK"])
    if process == 2:  # comes when process 1 has gone
        store = dist.TCPStore("127.0.0.1", store_port, is_master=False, timeout=TIMEOUT)
        store.wait(["going"], TIMEOUT)
    group = Group(store_port, backend)
    if process < 2:
        group.become(1, [0, 1])
        check_collectives([0, 1], process)
    if process == 1:
        group.say("going")
        os.kill(os.getpid(), signal.SIGKILL)
    group.become(2, [0, 2])
    check_collectives([0, 2], process)


@BACKENDS
def test_a_new_process_takes_the_place_of_a_killed_one(cluster, store, backend):
    results = run(cluster, store, 3, replace_a_rank, backend, expect_failures=True)
    assert isinstance(results[1], Failure) and results[1].kind == "Died"
    assert results[0] is None and results[2] is None, results


def leave_with_an_op_under_way(_make_group: Callable, store_port: int) -> str:
    group = Group(store_port, "shoal")
    group.become(1, [0, 1])
    if group.process == 1:
        work = dist.all_reduce(torch.ones(ELEMENTS), async_op=True)  # process 0 does not call
        group.say("under way")
    else:
        group.hear("under way")
    group.become(2, [0, 1])
    check_collectives([0, 1], group.process)
    message = ""
    if group.process == 1:
        with pytest.raises(RuntimeError) as raised:
            work.wait()
        message = str(raised.value)
        # What ended with the old ranks is no error of the new ones.
        assert group.backend.get_error() == ErrorType.SUCCESS
    check_collectives([0, 1], group.process)
    return message


def test_what_is_under_way_ends_with_an_error_of_the_old_ranks_alone(cluster, store):
    _, message = run(cluster, store, 2, leave_with_an_op_under_way)
    assert "takes other ranks" in message


def wait_for_one_who_does_not_come(_make_group: Callable, store_port: int) -> tuple[float, str]:
    group = Group(store_port, "shoal")
    seconds, message = 0.0, ""
    handles = group.handles("all", [0, 1])
    if group.process == 0:
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError) as raised:
            dist._reconfigure(1, handles, timeout=datetime.timedelta(seconds=2))
        seconds, message = time.monotonic() - begin, str(raised.value)
        with pytest.raises(RuntimeError, match=r"has no ranks; reconfigure\(\) gives it some"):
            dist.all_reduce(torch.ones(1))
        with pytest.raises(RuntimeError, match=r"has no ranks"):
            dist.broadcast(torch.ones(1), 0)
        assert group.backend.get_error() == ErrorType.COMM_ERROR
    dist.group.WORLD._enable_collectives_timing()  # of the ranks that are to come
    group.all_hear("tried", 2)
    group.become(2, [0, 1])
    assert group.backend.get_error() == ErrorType.SUCCESS
    check_collectives([0, 1], group.process)
    return seconds, message


def test_the_timeout_ends_a_reconfiguration_and_another_one_may_follow(cluster, store):
    (seconds, message), _ = run(cluster, store, 2, wait_for_one_who_does_not_come)
    assert 1.9 < seconds < 4 * TIME_FACTOR
    assert "DEADLINE_EXCEEDED" in message and "rank 1" in message or "ranks 0" in message, message


def name_one_who_is_gone(_make_group: Callable, store_port: int) -> tuple[float, str]:
    group = Group(store_port, "shoal")
    handles = group.handles("all", [0, 1])
    if group.process == 1:
        group.say("going")
        os.kill(os.getpid(), signal.SIGKILL)
    group.hear("going")
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError) as raised:
        dist._reconfigure(1, handles, timeout=TIMEOUT)
    return time.monotonic() - begin, str(raised.value)


def test_a_member_that_has_never_had_ranks_and_is_gone_is_named_with_its_lease(cluster, store):
    (seconds, message), _ = run(cluster, store, 2, name_one_who_is_gone, expect_failures=True)
    assert seconds < LEASE_S + 2 * TIME_FACTOR
    assert "ABORTED" in message and "is lost" in message, message


def stand_still(_make_group: Callable, store_port: int) -> tuple[str, bool]:
    group = Group(store_port, "shoal")
    group.become(1, [0, 1])
    check_collectives([0, 1], group.process)
    old, message = group.handles("old", [0, 1]), ""
    if group.process == 1:
        # Nobody asks for it while it stands still, so a helper wakes it again.
        if (helper := os.fork()) == 0:
            time.sleep(LEASE_S + 3)
            os.kill(os.getppid(), signal.SIGCONT)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.waitpid(helper, 0)
        with pytest.raises(dist.DistBackendError, match="this process has joined again") as raised:
            dist._reconfigure(2, old, timeout=TIMEOUT)
        message = str(raised.value)
    else:
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(ELEMENTS))
    group.become(3, [0, 1])
    check_collectives([0, 1], group.process)
    return message, dist._get_reconfigure_handle() != old[group.process]


def test_a_process_that_was_taken_for_lost_joins_again(cluster, store):
    (_, same), (message, other) = run(cluster, store, 2, stand_still)
    assert "FAILED_PRECONDITION" in message
    assert (same, other) == (False, True)


def give_wrong_handles(_make_group: Callable, store_port: int) -> None:
    group = Group(store_port, "shoal")
    group.become(1, [0, 1])
    own, other = group.handles("now", [group.process, 1 - group.process])
    number, draw, job = own.split(":", 3)[1:]
    cases = [
        ([], "is not among the 0"),
        ([other], "the handle of this process, .* is not among the 1 that are given"),
        ([own, own], "a handle is there twice"),
        ([own, "gloo:0:-1:0:"], "'gloo:0:-1:0:' is no handle of a Shoal process group"),
        ([own, ""], "'' is no handle"),
        ([own, f"shoal-1:{number}0:{draw}:another"], 'a member of job "another".*set SHOAL_JOB_NAME'),
    ]
    for handles, message in cases:
        with pytest.raises(dist.DistBackendError, match=message):
            dist._reconfigure(2, handles, timeout=TIMEOUT)
    group.all_hear("tried", 2)
    check_collectives([0, 1], group.process)
    group.become(2, [0, 1])  # a uuid that was refused with its handles is not used up
    check_collectives([0, 1], group.process)


def test_handles_that_are_wrong_are_refused_and_nothing_is_torn_down(cluster, store):
    run(cluster, store, 2, give_wrong_handles)


def begin_without(_make_group: Callable, store_port: int, variable: str, way: str) -> str:
    os.environ.pop(variable, None)
    options = None
    if way == "options of a group":
        options = shoal.GroupOptions()
        options.enable_reconfigure = True
    elif way == "options of the inner backend":
        options = dist.ProcessGroupGloo._Options()
        options.enable_reconfigure = True
    with pytest.raises(ValueError) as raised:
        dist.init_process_group(
            "shoal", store=dist.HashStore(), rank=0, world_size=1, pg_options=options, enable_reconfigure=not options
        )
    assert not dist.is_initialized()
    return str(raised.value)


@pytest.mark.parametrize("way", ["argument", "options of a group", "options of the inner backend"])
def test_it_says_what_such_a_group_needs(cluster, store, way):
    (message,) = run(cluster, store, 1, begin_without, "SHOAL_SCHEDULER", way)
    assert "`shoal-scheduler`" in message and "SHOAL_SCHEDULER=HOST:PORT" in message
    (message,) = run(cluster, store, 1, begin_without, "SHOAL_JOB_NAME", way)
    assert "SHOAL_JOB_NAME" in message


def use_options_of_the_inner_backend(_make_group: Callable, store_port: int) -> None:
    options = dist.ProcessGroupGloo._Options()
    options.enable_reconfigure = True
    options._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
    store = dist.TCPStore("127.0.0.1", store_port, is_master=False, timeout=TIMEOUT)
    dist.init_process_group("shoal", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
    own = int(os.environ["TEST_RANK"])
    for uuid in (1, 2):
        store.set(f"{uuid} {own}", dist._get_reconfigure_handle())
        handles = [store.get(f"{uuid} {process}").decode() for process in (0, 1)]
        dist._reconfigure(uuid, handles, timeout=TIMEOUT).wait()
        check_collectives([0, 1], own)


def test_options_of_the_inner_backend_serve_all_of_its_ranks(cluster, store):
    run(cluster, store, 2, use_options_of_the_inner_backend)


def reduce_on_devices(_make_group: Callable, store_port: int) -> None:
    cuda = device_under_test.load()
    device_under_test.use_devices()
    group = Group(store_port, "shoal")
    group.become(1, [0, 1, 2])
    for _ in range(3):
        tensor = cuda.on_device(torch.full((ELEMENTS,), 1.0 + group.process))
        dist.all_reduce(tensor)
        assert (cuda.on_host(tensor) == 6).all()
    if group.process == 2:
        group.say("going")
        os.kill(os.getpid(), signal.SIGKILL)
    tensor = cuda.on_device(torch.ones(ELEMENTS))
    dist.all_reduce(tensor)
    group.hear("going")
    cuda.synchronize()
    assert group.backend.get_error() == ErrorType.REMOTE_ERROR  # nobody has waited for the work
    group.become(2, [0, 1])
    assert group.backend.get_error() == ErrorType.SUCCESS
    tensor = cuda.on_device(torch.full((ELEMENTS,), 1.0 + group.process))
    dist.all_reduce(tensor)
    assert (cuda.on_host(tensor) == 3).all()
    assert group.backend.get_error() == ErrorType.SUCCESS


def test_on_devices_the_error_is_there_when_the_device_is_synchronized(cluster, store):
    device_under_test.build()
    results = run(cluster, store, 3, reduce_on_devices, environment=device_under_test.ENVIRONMENT, expect_failures=True)
    assert results[:2] == [None, None], results


def look_for_an_error_between_operations(_make_group: Callable, store_port: int) -> None:
    group = Group(store_port, "shoal")
    group.become(1, [0, 1])
    check_collectives([0, 1], group.process)
    assert group.backend.get_error() == ErrorType.SUCCESS
    if group.process == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while group.backend.get_error() == ErrorType.SUCCESS:
        time.sleep(0.01)
    assert group.backend.get_error() == ErrorType.REMOTE_ERROR
    # Which of the two joined the job first, and has number 0 there, is up to them.
    assert re.search(r"rank [01] of the job .* was lost", group.backend.failure()), group.backend.failure()
    group.become(2, [0])
    assert group.backend.failure() == ""
    assert group.backend.get_error() == ErrorType.SUCCESS


def test_a_lost_rank_is_an_error_also_between_operations(cluster, store):
    results = run(cluster, store, 2, look_for_an_error_between_operations, expect_failures=True)
    assert results[0] is None, results


def reconfigure_on_another_thread(_make_group: Callable, store_port: int) -> None:
    group = Group(store_port, "shoal")
    for uuid in range(1, 4):
        thread = threading.Thread(target=group.become, args=(uuid, [0, 1]))
        thread.start()
        thread.join()
        check_collectives([0, 1], group.process)


def test_another_thread_may_reconfigure(cluster, store):
    run(cluster, store, 2, reconfigure_on_another_thread)


def count_what_stays(_make_group: Callable, store_port: int) -> tuple[list[int], list[int]]:
    group = Group(store_port, "shoal")
    threads, files = [], []
    for uuid in range(1, 31):
        group.become(uuid, [0, 1])
        check_collectives([0, 1], group.process)
        threads.append(len(os.listdir("/proc/self/task")))
        files.append(len(os.listdir("/proc/self/fd")))
    return threads, files


def test_thirty_rosters_leave_nothing_behind(cluster, store):
    for threads, files in run(cluster, store, 2, count_what_stays):
        # Not each count is the same: what served the roster before may still be ending.
        assert min(threads[20:]) <= max(threads[:10]), threads
        assert min(files[20:]) <= max(files[:10]), files


def train_through_losses(_make_group: Callable, store_port: int, scale_sums: bool) -> list[float]:
    """Of the gradient of each step. That of a rank alone is its number and one."""
    options = shoal.GroupOptions(on_rank_loss="continue", min_ranks=2, scale_sums=scale_sums)
    group = Group(store_port, "shoal", options=options)
    group.become(1, [0, 1, 2, 3])
    model = DistributedDataParallel(torch.nn.Linear(1000, 100, bias=False), broadcast_buffers=False)
    gradients = []
    for step in range(12):
        if group.process == 3 and step == 4 or group.process == 1 and step == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        model.zero_grad()
        model(torch.full((1, 1000), group.process + 1.0)).sum().backward()
        gradient = model.module.weight.grad
        assert (gradient == gradient[0, 0]).all()
        gradients.append(float(gradient[0, 0]))
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    work.wait()
    assert work.contributors == (2, 2)
    tensor = torch.full((1000,), group.process + 1.0)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert (tensor == 2).all()  # of 1 and 3
    assert group.backend.get_error() == ErrorType.SUCCESS
    return gradients


@pytest.mark.parametrize("scale_sums", [True, False])
def test_a_step_goes_on_with_the_ranks_that_are_left(cluster, store, scale_sums):
    results = run(cluster, store, 4, train_through_losses, scale_sums, expect_failures=True)
    assert [isinstance(result, Failure) for result in results] == [False, True, False, True], results
    # DistributedDataParallel divides by four, whoever is left.
    means = [2.5] * 4 + [2.0] * 4 + [2.0] * 4
    if not scale_sums:
        means = [2.5] * 4 + [1.5] * 4 + [1.0] * 4
    for result in (results[0], results[2]):
        assert result == pytest.approx(means)


def lose_a_rank_that_has_pushed_a_part(_make_group: Callable, store_port: int, whole_op: bool) -> list:
    """The last process is stopped with its first chunks on the servers, and ended when the others have their sums."""
    options = shoal.GroupOptions(on_rank_loss="continue", min_ranks=2, scale_sums=False, whole_op=whole_op)
    group = Group(store_port, "shoal", options=options)
    group.become(1, [0, 1, 2])
    pushed_before = shoal.statistics()["bytes_pushed"]
    pulled_before = shoal.statistics()["bytes_pulled"]
    tensors = [torch.full((LARGE,), group.process + 1.0), torch.full((ELEMENTS,), 2.0 * group.process)]
    if group.process == 2:
        dist.all_reduce(tensors[0], async_op=True)
        while shoal.statistics()["bytes_pushed"] == pushed_before:
            time.sleep(0.001)
        group.store.set("stopped", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    pid = int(group.store.get("stopped"))
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    while shoal.statistics()["bytes_pulled"] == pulled_before:
        time.sleep(0.001)
    group.all_hear("has sums of three", 2)
    if group.process == 0:
        os.kill(pid, signal.SIGKILL)
    for work in works:
        work.wait()
    assert group.backend.get_error() == ErrorType.SUCCESS
    return [work.contributors for work in works] + [tensor.unique().tolist() for tensor in tensors]


@pytest.mark.parametrize("whole_op", [True, False])
def test_an_operation_is_of_one_roster_where_that_is_asked_for(cluster, store, whole_op):
    results = run(cluster, store, 3, lose_a_rank_that_has_pushed_a_part, whole_op, expect_failures=True)
    first = [(2, 2), [3.0]] if whole_op else [(2, 3), [3.0, 6.0]]
    for contributors, second_contributors, sums, second_sums in results[:2]:
        assert [contributors, sums] == first
        assert (second_contributors, second_sums) == ((2, 2), [2.0])


def lose_too_many(_make_group: Callable, store_port: int) -> str:
    options = shoal.GroupOptions(on_rank_loss="continue", min_ranks=3)
    group = Group(store_port, "shoal", options=options)
    group.become(1, [0, 1, 2])
    check_collectives([0, 1, 2], group.process)
    if group.process == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError) as raised:
        for _ in range(1000):
            dist.all_reduce(torch.ones(ELEMENTS))
    assert group.backend.get_error() == ErrorType.REMOTE_ERROR
    group.become(2, [0, 1])  # the next roster needs no more than it has
    check_collectives([0, 1], group.process)
    return str(raised.value)


def test_with_too_few_ranks_left_the_group_fails_and_gets_others(cluster, store):
    results = run(cluster, store, 3, lose_too_many, expect_failures=True)
    for message in results[:2]:
        assert re.search(r"rank \d of job .* was lost: .*it has 2 ranks left, and needs 3", message)


def ask_to_continue_without_rosters(_make_group: Callable) -> None:
    options = shoal.GroupOptions(on_rank_loss="continue")
    with pytest.raises(ValueError, match='on_rank_loss="continue".*pass enable_reconfigure=True'):
        dist.init_process_group("shoal", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
    with pytest.raises(ValueError, match="on_rank_loss='go on'"):
        shoal.GroupOptions(on_rank_loss="go on")
    with pytest.raises(ValueError, match="min_ranks=0"):
        shoal.GroupOptions(on_rank_loss="continue", min_ranks=0)


def test_a_fixed_group_does_not_go_on(cluster):
    run_ranks(1, ask_to_continue_without_rosters, environment=cluster.environment(), init=False)


def shut_down_while_it_is_reconfigured(_make_group: Callable, store_port: int) -> int:
    group = Group(store_port, "shoal")
    handles = group.handles("alone", [0])
    refused = []

    def reconfigure_on() -> None:
        for uuid in range(1, 1000):
            try:
                dist._reconfigure(uuid, handles, timeout=TIMEOUT).wait()
            except (dist.DistBackendError, RuntimeError) as error:
                refused.append(str(error))
                return

    thread = threading.Thread(target=reconfigure_on)
    thread.start()
    time.sleep(0.05)
    group.backend.shutdown()
    thread.join(20)
    assert not thread.is_alive()
    (text,) = refused
    assert "destroyed" in text or "closed" in text, text
    return len(text)


def test_shutdown_of_another_thread_ends_a_reconfiguration(cluster, store):
    run(cluster, store, 1, shut_down_while_it_is_reconfigured)
