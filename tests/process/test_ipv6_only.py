"""A network that has IPv6 alone, as Kubernetes clusters may. Needs root."""

import dataclasses
import pathlib

import pytest

from hosts.cluster import SCHEDULER_LISTENS, SERVER_LISTENS, Cluster, linked_cluster
from hosts.node import Node
from job_runs import digests


def with_ipv6_alone(node: Node, number: int) -> Node:
    moved = dataclasses.replace(node, address=f"fd00:64::{number}")
    node.run(["sh", "-e"], "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
    node.run(["ip", "addr", "flush", "dev", node.device])
    node.run(["ip", "addr", "add", f"{moved.address}/64", "dev", node.device, "nodad"])
    return moved


@pytest.fixture
def cluster():
    if not pathlib.Path("/proc/sys/net/ipv6").exists():
        pytest.skip("IPV6 ALONE IS NOT TESTED: this machine's kernel has no IPv6")
    with linked_cluster(2, 1) as linked:
        network = linked.network
        moved = {node.name: with_ipv6_alone(node, number) for number, node in enumerate(network.nodes(), start=1)}
        network.control = moved[network.control.name]
        network.servers, network.workers = (
            [moved[node.name] for node in nodes] for nodes in (network.servers, network.workers)
        )
        linked.node = network.control
        yield linked


def test_a_job_trains_with_the_addresses_as_kubernetes_gives_them(cluster: Cluster):
    """0.0.0.0 is every address of IPv6 as well, and --advertise takes an address without brackets."""
    [node] = cluster.network.servers
    scheduler = cluster.start_scheduler(listen="0.0.0.0:0")
    port = scheduler.wait_for_line(SCHEDULER_LISTENS).group(1).rpartition(":")[2]
    cluster.scheduler_address = f"[{cluster.network.control.address}]:{port}"
    with cluster.on(node):
        server = cluster.launch_server("--name", "named", "--network-only", advertise=node.address)
    assert server.wait_for_line(SERVER_LISTENS).group(2).startswith(f"[{node.address}]:")
    ranks = cluster.start_ranks_on(cluster.network.workers, "--count", "100000", "--rounds", "3")
    assert len(digests(ranks)) == 1
    assert cluster.network.bytes_received(node) > len(ranks) * 3 * 100000 * 4
