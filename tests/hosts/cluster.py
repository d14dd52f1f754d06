"""A cluster of the real programs: a scheduler, servers, ranks, and what the scheduler says of them."""

import contextlib
import json
import operator
import os
import pathlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

from hosts.network import LinkShape, Network, make_linked_nodes
from hosts.node import LOOPBACK, THIS_MACHINE, HostError, Node
from hosts.process import PATIENCE_S, Process, Processes, said_by

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
LIBRARY = PROGRAMS.parent / "lib" / "libshoal.so"
RANK_PROGRAM = ROOT / "tests/process/rank_program.py"
# Of a build with a sanitizer (scripts/test_sanitizers.sh): Python has to load its runtime before the library.
SANITIZER_RUNTIME = os.environ.get("SHOAL_SANITIZER_RUNTIME", "")

PROCESS_OF = operator.itemgetter("server_id", "registered_at_unix_ms")  # of a server in status: which process it is
SCHEDULER_LISTENS = r"^shoal-scheduler listening on (\S+)$"
SERVER_LISTENS = r"^shoal-server (\S+) listening on (\S+)$"


def program(name: str, programs: pathlib.Path = PROGRAMS) -> str:
    path = programs / name
    if not path.is_file():
        raise HostError(f"{path} is missing: run `make build`, or set SHOAL_BIN to the folder of the programs")
    return str(path)


def sanitizer_environment() -> dict[str, str]:
    """Of a Python program that loads the library."""
    if not SANITIZER_RUNTIME:
        return {}
    # Python itself frees little at its end.
    return {"LD_PRELOAD": SANITIZER_RUNTIME, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, for programs that can't choose their own."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster(Processes):
    """Starts programs of one cluster and asks its scheduler. Everything that was started dies with it.

    With a network the scheduler is on its node `control`, from where shoalctl is asked as well; else all programs are
    on this machine."""

    def __init__(self, network: Network | None = None, programs: pathlib.Path = PROGRAMS) -> None:
        super().__init__()
        self.network = network
        self.programs = programs
        self.node = network.control if network else THIS_MACHINE
        self.scheduler: Process | None = None  # that was started last
        self.scheduler_address = ""

    def program(self, name: str) -> str:
        return program(name, self.programs)

    def start_scheduler(self, *options: str, listen: str = "", lease_ttl_ms: int = 5000) -> Process:
        where = ["--listen", listen or f"{self.node.address}:0", "--lease-ttl", str(lease_ttl_ms)]
        # Nobody else is in a test's networks. As a variable, which programs from before it was needed do not refuse.
        environment = {} if "--tls-cert" in options else {"SHOAL_SCHEDULER_INSECURE_NETWORK": "1"}
        self.scheduler = self.start([self.program("shoal-scheduler"), *where, *options], environment)
        self.scheduler_address = self.scheduler.wait_for_line(SCHEDULER_LISTENS).group(1)
        return self.scheduler

    def launch_server(self, *options: str, scheduler: str = "", advertise: str = "") -> Process:
        """Without waiting for it."""
        where = ["--scheduler", scheduler or self.scheduler_address, "--advertise", advertise or self.node.address]
        return self.start([self.program("shoal-server"), *where, *options])

    def start_server(self, name: str, *options: str) -> Process:
        """Registered when this returns."""
        server = self.launch_server("--name", name, *options)
        server.wait_for_line(SERVER_LISTENS)
        return server

    def launch_server_on(self, node: Node, *options: str, name: str = "") -> Process:
        """Without waiting for it. It has the node's name if nothing else is said."""
        with self.on(node):
            return self.launch_server(
                "--name", name or node.name, "--net-device", node.device, "--network-only", *options
            )

    def start_server_on(self, node: Node, *options: str, name: str = "") -> Process:
        server = self.launch_server_on(node, *options, name=name)
        server.wait_for_line(SERVER_LISTENS)
        return server

    def start_servers(self, *options: str) -> dict[str, Process]:
        """One on each of network.servers, by the node's name, which is its own as well."""
        servers = {node.name: self.launch_server_on(node, *options) for node in self.network.servers}
        for server in servers.values():
            server.wait_for_line(SERVER_LISTENS)
        return servers

    def start_rank(self, rank: int, world_size: int, *options: str) -> Process:
        """A rank of the job "test" (rank_program.py), without waiting for it."""
        return self.start(
            [sys.executable, str(RANK_PROGRAM), "--library", str(LIBRARY), "--scheduler", self.scheduler_address]
            + ["--rank", str(rank), "--world-size", str(world_size), *options],
            sanitizer_environment(),
        )

    def start_ranks(self, world_size: int, *options: str) -> list[Process]:
        return [self.start_rank(rank, world_size, *options) for rank in range(world_size)]

    def start_perf_rank(self, rank: int, world_size: int, *options: str) -> Process:
        """Of the job "perf"."""
        command = [self.program("shoal-perf"), "--scheduler", self.scheduler_address, "--job", "perf"]
        return self.start([*command, "--world-size", str(world_size), "--rank", str(rank), *options])

    def start_ranks_on(self, nodes: list[Node], *options: str) -> list[Process]:
        """One on each node, rank 0 on the first."""
        return self.start_ranks_within(nodes, "--network-only", *options)

    def start_ranks_within(self, nodes: list[Node], *options: str) -> list[Process]:
        """As start_ranks_on, but ranks of one node share memory."""
        return self._start_on_each(nodes, self.start_rank, options)

    def start_perf_ranks_on(self, nodes: list[Node], *options: str) -> list[Process]:
        """Of the job "perf", one on each node."""
        return self._start_on_each(nodes, self.start_perf_rank, options)

    def _start_on_each(
        self, nodes: list[Node], start: Callable[..., Process], options: tuple[str, ...]
    ) -> list[Process]:
        ranks = []
        for rank, node in enumerate(nodes):
            with self.on(node):
                ranks.append(start(rank, len(nodes), *options))
        return ranks

    def call_shoalctl(self, *arguments: str, scheduler: str = "") -> subprocess.CompletedProcess[str]:
        return self.call([self.program("shoalctl"), "--scheduler", scheduler or self.scheduler_address, *arguments])

    def shoalctl_text(self, *arguments: str) -> str:
        return said_by(self.call_shoalctl(*arguments))

    def shoalctl(self, *arguments: str) -> list[dict]:
        """The JSON documents that the command prints: one, but for `events --follow`."""
        return parse_documents(self.shoalctl_text(*arguments, "--json"))

    def scheduler_metrics(self) -> dict[str, float]:
        """Of a scheduler that was started with --http: each sample by its name with labels. Asked for as shoalctl asks,
        from where the scheduler is reached."""
        get = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())"
        command = [sys.executable, "-c", get, f"http://{self.scheduler.http_address()}/metrics"]
        return parse_samples(said_by(self.call(command)))

    def servers(self) -> dict[str, dict]:
        """By name."""
        (document,) = self.shoalctl("servers")
        return {server["name"]: server for server in document.get("servers", [])}

    def bytes_out(self, server: str) -> int:
        """What the server has sent, as it told the scheduler last."""
        return int(self.servers()[server].get("load", {}).get("bytes_out", 0))

    def least_ops(self, job: str) -> int:
        """What each rank has completed at least, as the scheduler has heard; 0 also where there is no such job."""
        (document,) = self.shoalctl("jobs")
        if job not in {each["name"] for each in document.get("jobs", [])}:
            return 0
        (found,) = self.shoalctl("job", job)
        return min((int(rank.get("load", {}).get("ops_completed", 0)) for rank in found["ranks"]), default=0)

    def epoch(self) -> int:
        (document,) = self.shoalctl("map")
        return int(document.get("epoch", 0))

    def events(self) -> list[dict]:
        (document,) = self.shoalctl("events")
        return document["events"]

    def wait_for_server(self, name: str, state: str, timeout_s: float = PATIENCE_S) -> dict:
        def server_in_state() -> dict | None:
            server = self.servers().get(name)
            return server if server and server["state"] == state else None

        return self.wait_until(server_in_state, f"server {name} is {state}", timeout_s)

    def wait_for_event(self, kind: str, subject: str, timeout_s: float = PATIENCE_S) -> dict:
        def matching_event() -> dict | None:
            events = [e for e in self.events() if e["kind"] == kind and subject in e.get("subject", "")]
            return events[-1] if events else None

        return self.wait_until(matching_event, f"an event {kind} about {subject}", timeout_s)

    def told(self, clause: str, kind: str, text: str, by: Process | None = None) -> None:
        """A clause of docs/failover.md can be told from an event of the scheduler: its kind, and what is found in
        "SUBJECT: REASON". `by`: from what that process says instead, in a line with the event's key (none: any line).
        test_clauses_are_told.py wants each clause to be told somewhere."""
        if by is not None:
            by.wait_for_line(f"{kind}.*{text}")
            return

        def is_told() -> bool:
            events = [event for event in self.events() if event["kind"] == kind]
            return any(re.search(text, f"{event.get('subject', '')}: {event.get('reason', '')}") for event in events)

        self.wait_until(is_told, f"{clause} is told: an event {kind} with {text!r}")

    def wait_for_move(self, job: str, count: int) -> list[dict]:
        """The moves of the job's group, at least so many."""

        def moves() -> list[dict] | None:
            found = [e for e in self.events() if e["kind"] == "group-moved" and f'job "{job}"' in e["subject"]]
            return found if len(found) >= count else None

        return self.wait_until(moves, f"{count} moves of the group of {job}")


def need_root(what: str) -> None:
    """Skips the test where nobody can make network namespaces; with CI=true that is a failure."""
    import pytest  # which measurements do not have

    if os.geteuid() != 0:
        why = f"{what} is not tested: making network namespaces needs root"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why.upper())


@contextlib.contextmanager
def linked_cluster(
    worker_count: int, server_count: int, ranks_per_node: int = 1, server_links: list[LinkShape | None] | None = None
) -> Iterator[Cluster]:
    """Each program on a node of its own, with links that a test can break. `network.workers` names each of the workers'
    nodes `ranks_per_node` times. `server_links`: None for one without a limit, as all are by themselves."""
    need_root("what breaks links")
    links = server_links or [None] * server_count
    with make_linked_nodes([None] * worker_count, links, ranks_per_node) as network, Cluster(network) as cluster:
        yield cluster


def parse_samples(text: str) -> dict[str, float]:
    """Of Prometheus' text format: each sample by its name with labels."""
    samples = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in samples}


def parse_documents(text: str) -> list[dict]:
    decoder = json.JSONDecoder()
    documents = []
    rest = text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].strip()
    return documents
