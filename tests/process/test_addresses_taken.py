"""A program that is started while the one that it replaces still ends: its addresses and its state file become free
soon. Real processes."""

import contextlib
import fcntl
import pathlib
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from hosts.cluster import SCHEDULER_LISTENS, SERVER_LISTENS, Cluster, program
from hosts.node import LOOPBACK
from hosts.process import Process


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as holder:
        yield holder.getsockname()[1]


def start_scheduler(cluster: Cluster, *options: str) -> Process:
    return cluster.start([program("shoal-scheduler"), *options])


@pytest.mark.parametrize("option", ["--http", "--port-base"])
def test_a_server_waits_for_an_address_that_becomes_free(cluster: Cluster, option: str):
    cluster.start_scheduler()
    with taken_port() as port:
        value = f"{LOOPBACK}:{port}" if option == "--http" else str(port)
        server = cluster.launch_server(option, value)
        server.wait_for_line(rf"address-taken: waited .*can't listen on {LOOPBACK}:{port}: ")
    server.wait_for_line(SERVER_LISTENS)


@pytest.mark.parametrize("option", ["--http", "--listen"])
def test_a_scheduler_waits_for_an_address_that_becomes_free(cluster: Cluster, option: str):
    with taken_port() as port:
        listen = [] if option == "--listen" else ["--listen", f"{LOOPBACK}:0"]
        scheduler = start_scheduler(cluster, *listen, option, f"{LOOPBACK}:{port}")
        scheduler.wait_for_line(
            rf"address-taken: waited .* another process to end .*{LOOPBACK}:{port}: Address already in use; .*{option}"
        )
    scheduler.wait_for_line(SCHEDULER_LISTENS)


def test_a_scheduler_waits_for_a_state_file_that_becomes_free(cluster: Cluster, tmp_path: pathlib.Path):
    with open(tmp_path / "state.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scheduler = start_scheduler(cluster, "--listen", f"{LOOPBACK}:0", "--state-file", str(tmp_path / "state"))
        scheduler.wait_for_line("address-taken: .*state is in use by another scheduler")
    scheduler.wait_for_line(SCHEDULER_LISTENS)


def stopped_scheduler(cluster: Cluster, port: int) -> Process:
    return start_scheduler(cluster, "--listen", f"{LOOPBACK}:{port}")


def stopped_server(cluster: Cluster, port: int) -> Process:
    return cluster.launch_server("--http", f"{LOOPBACK}:{port}", scheduler=f"{LOOPBACK}:1")


@pytest.mark.parametrize("start", [stopped_scheduler, stopped_server])
def test_who_waits_for_an_address_can_be_stopped(cluster: Cluster, start: Callable[[Cluster, int], Process]):
    with taken_port() as port:
        process = start(cluster, port)
        process.wait_for_line("address-taken")
        process.send(signal.SIGTERM)
        assert process.wait() == 0, f"{process}"
    assert "stopped while it waited for another process to end" in process.output
