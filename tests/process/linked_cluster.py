"""A cluster of the real programs, each on a host of its own, with links that a test can break. Needs root.

The hosts are network namespaces of the bench's rig: the kernel removes them with the test's process.
"""

import contextlib
import os
import sys
from collections.abc import Iterator

import pytest

from cluster import ROOT, SERVER_LISTENS, Cluster, Process

sys.path.insert(0, str(ROOT / "bench"))

from rig.hosts import Host
from rig.network import Network, make_linked_hosts, run_in

NOBODYS_CARD = "02:00:00:00:00:01"


class LinkedCluster(Cluster):
    """The scheduler is on network.control, from where shoalctl is asked as well."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self._before_exec = network.control.enter

    @contextlib.contextmanager
    def on(self, host: Host) -> Iterator[None]:
        """What is started meanwhile is on the host."""
        before = self._before_exec
        self._before_exec = host.enter
        try:
            yield
        finally:
            self._before_exec = before

    def start_scheduler_on_control(self, lease_ttl_ms: int) -> Process:
        return self.start_scheduler(listen=f"{self.network.control.address}:0", lease_ttl_ms=lease_ttl_ms)

    def start_servers(self) -> dict[str, Process]:
        """One on each of network.servers, by the host's name, which is its own as well."""
        servers = {}
        for host in self.network.servers:
            options = ["--name", host.name, "--net-device", host.device, "--network-only"]
            with self.on(host):
                servers[host.name] = self.launch_server(*options, advertise=host.address)
        for server in servers.values():
            server.wait_for_line(SERVER_LISTENS)
        return servers

    def start_ranks_on(self, hosts: list[Host], *options: str) -> list[Process]:
        """One on each host, rank 0 on the first."""
        ranks = []
        for rank, host in enumerate(hosts):
            with self.on(host):
                ranks.append(self.start_rank(rank, len(hosts), "--network-only", *options))
        return ranks


def cut_path(one: Host, other: Host) -> None:
    """Nothing gets through between the two any more, and nobody is told; both reach everybody else."""
    for host, peer in ((one, other), (other, one)):
        card = ["lladdr", NOBODYS_CARD, "dev", host.device, "nud", "permanent"]
        run_in(host.namespace, ["ip", "neighbour", "replace", peer.address, *card])


@contextlib.contextmanager
def linked_cluster(worker_count: int, server_count: int) -> Iterator[LinkedCluster]:
    """Skips the test where nobody can make namespaces; with CI=true that is a failure."""
    if os.geteuid() != 0:
        why = "making network namespaces needs root"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}; with CI=true broken links must be tested")
        pytest.skip(f"BROKEN LINKS ARE NOT TESTED: {why}")
    with make_linked_hosts([None] * worker_count, [None] * server_count) as network:
        cluster = LinkedCluster(network)
        try:
            yield cluster
        except BaseException:
            print(cluster, file=sys.stderr)  # pytest shows it with the failure
            raise
        finally:
            cluster.end()
