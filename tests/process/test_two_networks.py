"""Servers of a node with several networks, told by which one workers reach them. Needs root."""

import pytest

from hosts.cluster import SERVER_LISTENS, Cluster, linked_cluster
from hosts.node import LOOPBACK
from job_runs import digests


@pytest.fixture
def cluster():
    with linked_cluster(2, 1) as linked:
        [node] = linked.network.servers
        # Workers can't reach it, and the kernel lists it before the one that they reach.
        node.run(["ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1"])
        node.run(["ip", "addr", "add", "10.250.0.1/16", "dev", "a0"])
        for device in ("a0", "a1"):
            node.run(["ip", "link", "set", device, "up"])
        yield linked


@pytest.mark.parametrize("by", ["network", "device"])
def test_ranks_reach_a_server_in_the_network_that_is_named(cluster: Cluster, by: str):
    [node] = cluster.network.servers
    cluster.start_scheduler(lease_ttl_ms=3000)
    with cluster.on(node):
        advertise = node.device if by == "device" else f"{node.address.rpartition('.')[0]}.0/24"
        server = cluster.launch_server("--name", "named", "--network-only", advertise=advertise)
    assert server.wait_for_line(SERVER_LISTENS).group(2).startswith(f"{node.address}:")
    before = cluster.network.bytes_received(node)
    ranks = cluster.start_ranks_on(cluster.network.workers, "--count", "100000", "--rounds", "3")
    assert len(digests(ranks)) == 1
    came = cluster.network.bytes_received(node) - before
    assert came > len(ranks) * 3 * 100000 * 4, "by the device of that network"


def test_a_network_without_an_address_of_this_node_is_refused(cluster: Cluster):
    [node] = cluster.network.servers
    wrong = {"10.251.0.0/16": "no address", "10.0.0.0/8": "several addresses", "10.250.0.0/33": "no network"}
    for network, why in wrong.items():
        with cluster.on(node):
            server = cluster.launch_server(advertise=network, scheduler=f"{LOOPBACK}:1")
        assert server.wait() == 1
        last = server.output.splitlines()[-1]
        assert f"--advertise {network} is " in last and why in last
        assert "10.250.0.1 on a0" in last and f"{node.address} on {node.device}" in last, "says which there are"
