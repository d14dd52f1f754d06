"""A cluster of the real programs, each on a node of its own, with links that a test can break. Needs root.

The nodes are network namespaces of the bench's rig: the kernel removes them with the test's process.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import pytest

from cluster import ROOT, SERVER_LISTENS, Cluster, Process

sys.path.insert(0, str(ROOT / "bench"))

from rig.nodes import Node
from rig.network import LinkShape, Network, make_linked_nodes, run_in

NOBODYS_CARD = "02:00:00:00:00:01"


class LinkedCluster(Cluster):
    """The scheduler is on network.control, from where shoalctl is asked as well."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.before_exec = network.control.enter

    @contextlib.contextmanager
    def on(self, node: Node) -> Iterator[None]:
        """What is started meanwhile is on the node."""
        before = self.before_exec
        self.before_exec = node.enter
        try:
            yield
        finally:
            self.before_exec = before

    def start_scheduler_on_control(self, lease_ttl_ms: int, *options: str) -> Process:
        return self.start_scheduler(*options, listen=f"{self.network.control.address}:0", lease_ttl_ms=lease_ttl_ms)

    def start_servers(self) -> dict[str, Process]:
        """One on each of network.servers, by the node's name, which is its own as well."""
        servers = {node.name: self.launch_server_on(node) for node in self.network.servers}
        for server in servers.values():
            server.wait_for_line(SERVER_LISTENS)
        return servers

    def start_server_on(self, node: Node) -> Process:
        server = self.launch_server_on(node)
        server.wait_for_line(SERVER_LISTENS)
        return server

    def launch_server_on(self, node: Node, *more_options: str) -> Process:
        """Without waiting for it."""
        return self.launch_server_named(node.name, node, *more_options)

    def launch_server_named(self, name: str, node: Node, *more_options: str) -> Process:
        """Without waiting for it."""
        options = ["--name", name, "--net-device", node.device, "--network-only", *more_options]
        with self.on(node):
            return self.launch_server(*options, advertise=node.address)

    def start_ranks_on(self, nodes: list[Node], *options: str) -> list[Process]:
        """One on each node, rank 0 on the first."""
        return self.start_ranks_within(nodes, "--network-only", *options)

    def start_perf_ranks_on(self, nodes: list[Node], *options: str) -> list[Process]:
        """Of the job "perf", one on each node."""
        return self._start_on_each(nodes, self.start_perf_rank, options)

    def start_ranks_within(self, nodes: list[Node], *options: str) -> list[Process]:
        """As start_ranks_on, but ranks of one node share memory."""
        return self._start_on_each(nodes, self.start_rank, options)

    def _start_on_each(
        self, nodes: list[Node], start: Callable[..., Process], options: tuple[str, ...]
    ) -> list[Process]:
        ranks = []
        for rank, node in enumerate(nodes):
            with self.on(node):
                ranks.append(start(rank, len(nodes), *options))
        return ranks


def cut_path(one: Node, other: Node) -> None:
    """Nothing gets through between the two any more, and nobody is told; both reach everybody else."""
    for node, peer in ((one, other), (other, one)):
        card = ["lladdr", NOBODYS_CARD, "dev", node.device, "nud", "permanent"]
        run_in(node.namespace, ["ip", "neighbour", "replace", peer.address, *card])


def shape_link(network: Network, node: Node, up_mbit: float, down_mbit: float = 0) -> None:
    """The node's link has these rates from now on, also if it had others; down 0: as up."""
    ends = (
        (node.namespace, node.device, up_mbit),
        (network.switch, network.ports[node.name], down_mbit or up_mbit),
    )
    for namespace, device, rate_mbit in ends:
        setting = ["rate", f"{rate_mbit}mbit", "burst", "80kb", "limit", "256kb"]
        run_in(namespace, ["tc", "qdisc", "replace", "dev", device, "root", "tbf", *setting])


def slow_down_way(node: Node, to: Node, rate_mbit: float) -> None:
    """What the node sends to that other one goes at this rate from now on, and nothing else is held up."""
    fast = ["rate", "10gbit"]
    for command in (
        ["qdisc", "replace", "dev", node.device, "root", "handle", "1:", "htb", "default", "10"],
        ["class", "replace", "dev", node.device, "parent", "1:", "classid", "1:10", "htb", *fast],
        ["class", "replace", "dev", node.device, "parent", "1:", "classid", "1:20", "htb", "rate", f"{rate_mbit}mbit"],
        ["filter", "replace", "dev", node.device, "parent", "1:", "protocol", "ip", "prio", "1", "handle", "800::800"]
        + ["u32", "match", "ip", "dst", f"{to.address}/32", "flowid", "1:20"],
    ):
        run_in(node.namespace, ["tc", *command])


@contextlib.contextmanager
def linked_cluster(
    worker_count: int, server_count: int, ranks_per_node: int = 1, server_links: list[LinkShape | None] | None = None
) -> Iterator[LinkedCluster]:
    """`network.workers` names each of the workers' nodes `ranks_per_node` times. `server_links`: None for one without a
    limit, as all are by themselves. Skips the test where nobody can make namespaces; with CI=true that is a failure."""
    if os.geteuid() != 0:
        why = "making network namespaces needs root"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true broken links must be tested")
        pytest.skip(f"BROKEN LINKS ARE NOT TESTED: {why}")
    server_links = server_links or [None] * server_count
    with make_linked_nodes([None] * worker_count, server_links, ranks_per_node) as network:
        cluster = LinkedCluster(network)
        try:
            yield cluster
        except BaseException:
            print(cluster, file=sys.stderr)  # pytest shows it with the failure
            raise
        finally:
            cluster.end()
