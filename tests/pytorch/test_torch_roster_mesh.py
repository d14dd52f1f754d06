"""How the ranks of a roster connect with each other for what Gloo does, and what a lost rank does to that."""

import datetime
import os
import signal
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

import shoal
from changing_group import LEASE_S, Group, check_collectives, run
from hosts.process import TIME_FACTOR
from rank_processes import Failure
from shoal import mesh

if not hasattr(dist.ProcessGroup, "reconfigure"):
    pytest.skip(f"torch {torch.__version__} has no reconfigure", allow_module_level=True)


def refuse_stores(*_arguments: object, **_more: object) -> None:
    raise AssertionError("a store that all ranks reach was made")


def become_without_a_store(_make_group: Callable, store_port: int) -> None:
    group = Group(store_port, "shoal")
    dist.TCPStore = refuse_stores
    for uuid in range(3):
        group.become(uuid, [0, 1, 2])
        check_collectives([0, 1, 2], group.process)


def test_ranks_meet_without_a_store_that_all_reach(cluster, store):
    run(cluster, store, 3, become_without_a_store)


def become_with_devices(_make_group: Callable, store_port: int) -> int:
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    group = Group(store_port, "shoal", shoal.GroupOptions(inner=options))
    stores = []
    make_store = dist.TCPStore
    dist.TCPStore = lambda *arguments, **more: stores.append(make_store(*arguments, **more)) or stores[-1]
    for uuid in range(2):
        group.become(uuid, [0, 1])
        check_collectives([0, 1], group.process)
    return len(stores)


def test_a_gloo_that_connects_while_it_is_made_has_a_store(cluster, store):
    assert run(cluster, store, 2, become_with_devices) == [2, 2]


def become_with_options(_make_group: Callable, store_port: int) -> None:
    options = dist.ProcessGroupGloo._Options()
    options._threads = 3
    group = Group(store_port, "shoal", shoal.GroupOptions(inner=options))
    dist.TCPStore = refuse_stores
    for uuid in range(3):  # a device that connects lazily has ended with the roster that it was for
        group.become(uuid, [0, 1])
        check_collectives([0, 1], group.process)


def test_options_of_gloo_serve_one_roster_after_the_other(cluster, store):
    run(cluster, store, 2, become_with_options)


def send_before_the_peer_calls(_make_group: Callable, store_port: int, few: bool) -> None:
    if not few:
        mesh.FEW_RANKS, mesh.PAUSE_SECONDS = 1, 0.3
    group = Group(store_port, "shoal")
    group.become(1, [0, 1, 2])
    peers = [process for process in range(3) if process != group.process]
    sends = [dist.isend(torch.full((3,), float(group.process)), peer) for peer in peers]
    tensor = torch.ones(10)
    dist.all_reduce(tensor)  # by the servers; the peers receive nothing before they are here
    assert (tensor == 3).all()
    for peer in peers:
        received = torch.zeros(3)
        dist.recv(received, peer)
        assert (received == peer).all()
    for send in sends:
        send.wait()
    received = torch.zeros(1)
    if group.process == 0:
        assert sorted([dist.recv(received), dist.recv(received)]) == [1, 2]
    else:
        dist.send(received, 0)
    check_collectives([0, 1, 2], group.process)


@pytest.mark.parametrize("few", [True, False])
def test_a_send_does_not_wait_for_what_its_peer_calls_later(cluster, store, few):
    run(cluster, store, 3, send_before_the_peer_calls, few)


def receive_late(_make_group: Callable, store_port: int) -> None:
    group = Group(store_port, "shoal")
    group.become(1, [0, 1])
    received = torch.zeros(1)
    if group.process == 0:
        dist.recv(received, 1)
        assert received == 1
    else:
        time.sleep(7)
        dist.send(torch.ones(1), 0)


def test_a_receive_waits_for_what_is_sent_late(cluster, store):
    run(cluster, store, 2, receive_late)  # in vain where Gloo's timeout is made short for the sake of its connections


def lose_a_rank_before_the_first_op(_make_group: Callable, store_port: int) -> float:
    group = Group(store_port, "shoal")
    with pytest.raises(RuntimeError):  # those that are not connected yet hear of it in reconfigure
        group.become(1, [0, 1, 2, 3])
        if group.process == 3:
            group.store.set("killed at", repr(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        dist.recv(torch.zeros(1), 3)
    seconds = time.time() - float(group.store.get("killed at"))
    group.become(2, [2, 1, 0])
    check_collectives([2, 1, 0], group.process)
    group.become(3, [0, 1, 2])  # the old connections have ended by now
    return seconds


def test_a_rank_that_is_lost_before_the_first_op_is_seen_to_be(cluster, store):
    results = run(cluster, store, 4, lose_a_rank_before_the_first_op, expect_failures=True)
    assert isinstance(results[3], Failure) and results[3].kind == "Died"
    assert not any(isinstance(result, Failure) for result in results[:3]), results
    assert max(results[:3]) < 2 * TIME_FACTOR


def lose_a_rank_in_the_exchange(_make_group: Callable, store_port: int) -> tuple[float, str]:
    group = Group(store_port, "shoal")
    if group.process == 2:
        mesh.exchange_addresses = lambda *_arguments: os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError) as raised:
        group.become(1, [0, 1, 2])
    seconds = time.monotonic() - begin
    with pytest.raises(RuntimeError, match=r"has no ranks"):
        dist.all_reduce(torch.ones(1))
    group.become(2, [1, 0])
    check_collectives([1, 0], group.process)
    return seconds, str(raised.value)


def test_a_rank_that_is_lost_in_the_exchange_fails_it_on_the_others(cluster, store):
    results = run(cluster, store, 3, lose_a_rank_in_the_exchange, expect_failures=True)
    assert isinstance(results[2], Failure) and results[2].kind == "Died"
    for seconds, message in results[:2]:
        assert seconds < LEASE_S + 2 * TIME_FACTOR
        assert "rank 2" in message or "lost" in message, message


def stand_still_in_the_exchange(_make_group: Callable, store_port: int) -> tuple[float, str]:
    group = Group(store_port, "shoal")
    handles = group.handles("all", [0, 1])
    seconds, message = 0.0, ""
    exchange = mesh.exchange_addresses
    if group.process == 1:
        mesh.exchange_addresses = lambda *arguments: (group.hear("tried"), exchange(*arguments))
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError) as raised:
        dist._reconfigure(1, handles, timeout=datetime.timedelta(seconds=2 if group.process == 0 else 20))
    seconds, message = time.monotonic() - begin, str(raised.value)
    if group.process == 0:
        group.say("tried")
    mesh.exchange_addresses = exchange
    group.become(2, [0, 1])
    check_collectives([0, 1], group.process)
    return seconds, message


def test_the_timeout_holds_in_the_exchange(cluster, store):
    (seconds, message), _ = run(cluster, store, 2, stand_still_in_the_exchange)
    assert 1.9 < seconds < 4 * TIME_FACTOR
    assert "DEADLINE_EXCEEDED" in message, message
