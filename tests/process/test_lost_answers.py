"""The scheduler opens a group, and one rank can't hear of it (F12). Real processes; a door between one rank and the
scheduler."""

import contextlib
import re
import signal
import socket
import threading

import pytest

from hosts.cluster import Cluster
from hosts.node import LOOPBACK
from hosts.process import Process
from job_runs import digests, refusal


class Door:
    """Passes connections on to an address; `shut`: what comes back from there is lost; `cut`: they all break.

    `hold`: what comes back, but for the first words of each connection, waits for `release`.
    """

    def __init__(self, behind: str):
        host, port = behind.rsplit(":", 1)
        self._behind = (host, int(port))
        self._lock = threading.Lock()
        self._shut = False
        self._released = threading.Event()
        self._released.set()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def shut(self) -> None:
        with self._lock:
            self._shut = True

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def cut(self) -> None:
        """New connections find it open."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):  # it has ended by itself
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()
            self._shut = False

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _listen(self) -> None:
        while True:
            try:
                outer, _ = self._listener.accept()
            except OSError:
                return
            try:
                inner = socket.create_connection(self._behind)
            except OSError:
                outer.close()
                continue
            with self._lock:
                self._connections += [outer, inner]
            threading.Thread(target=self._pass_on, args=(outer, inner, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(inner, outer, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        is_first = True
        try:
            while data := source.recv(65536):
                if is_answer and not is_first:
                    self._released.wait()
                is_first = False
                with self._lock:
                    lost = self._shut and is_answer
                if not lost:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other direction, or cut(), ended it


def test_a_server_that_is_stopped_while_it_registers_leaves_the_map(cluster: Cluster):
    cluster.start_scheduler()
    with contextlib.closing(Door(cluster.scheduler_address)) as door:
        door.hold()
        server = cluster.launch_server("--name", "late", scheduler=door.address)
        cluster.wait_until(lambda: "late" in cluster.servers(), "the scheduler has registered the server")
        server.send(signal.SIGTERM)
        door.release()
        server.wait()
    assert cluster.servers()["late"]["state"] == "left"


@pytest.mark.parametrize("scheduler_dies", [True, False], ids=["scheduler-dies", "connection-breaks"])
def test_f12_a_rank_that_could_not_hear_of_its_group_asks_again(cluster: Cluster, tmp_path, scheduler_dies):
    state_file = str(tmp_path / "state")
    scheduler = cluster.start_scheduler("--state-file", state_file)
    with contextlib.closing(Door(cluster.scheduler_address)) as door:
        early, late = open_group_unheard(cluster, door)
        if scheduler_dies:
            scheduler.send(signal.SIGKILL)
            scheduler.wait()
            cluster.start_scheduler("--state-file", state_file, listen=cluster.scheduler_address)
        door.cut()
        assert len(digests([early, late])) == 1
    opened = [event for event in cluster.events() if event["kind"] == "group-opened"]
    assert len(opened) == (0 if scheduler_dies else 1), "the journal is of the scheduler that runs now"


def test_f21_a_rank_that_is_closed_before_it_heard_of_its_group_ends_it_for_the_other(cluster: Cluster):
    cluster.start_scheduler()
    with contextlib.closing(Door(cluster.scheduler_address)) as door:
        early, late = open_group_unheard(cluster, door, "--close-when-told")
        late.say()
        # The rank hears of it before it has called an op, or in one.
        given_up = r"ABORTED: rank 1 on \S+: it gave its request for the group up: the worker is closed"
        assert re.fullmatch(f"{given_up}(; all-reduce 1 of .*)?", refusal(early))
        assert refusal(late) == "CANCELLED: the worker is closed"


def open_group_unheard(cluster: Cluster, door: Door, *options: str) -> tuple[Process, Process]:
    """Two ranks: one in the group that both asked for, and one (with these options) behind the door, that waits for the
    answer."""
    cluster.start_server("alpha")
    late = cluster.start_rank(1, 2, "--scheduler", door.address, *options)

    def late_waits() -> bool:
        (document,) = cluster.shoalctl("jobs")
        return any(group["state"] == "waiting" for job in document.get("jobs", []) for group in job.get("groups", []))

    cluster.wait_until(late_waits, "rank 1 has asked for the group")
    door.shut()
    early = cluster.start_rank(0, 2)
    early.wait_for_line("^group open$")
    return early, late
