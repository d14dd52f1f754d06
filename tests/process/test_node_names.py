"""Nodes of one host name are told apart, and one node with several host names is one: plans go by boot ids."""

import dataclasses
import re
import signal

from hosts.cluster import SERVER_LISTENS, Cluster, linked_cluster
from job_runs import digests

COLOCATE = ["--colocate", "on", "--count", "300007"]


def group_opened(cluster: Cluster) -> str:
    return cluster.wait_for_event("group-opened", 'job "test"')["reason"]


def ranks_with_servers(cluster: Cluster) -> list[int]:
    found = [re.search(r"-job\d+-rank(\d+)$", name) for name in cluster.servers()]
    return sorted(int(match.group(1)) for match in found if match)


def test_nodes_of_one_name_run_a_server_each_and_the_name_is_told():
    with linked_cluster(2, 1, ranks_per_node=2) as cluster:
        cluster.start_scheduler()
        cluster.start_server_on(dataclasses.replace(cluster.network.servers[0], name="localhost"))
        nodes = [dataclasses.replace(node, name="localhost") for node in cluster.network.workers]
        digests(cluster.start_ranks_on(nodes, *COLOCATE))
        assert [rank // 2 for rank in ranks_with_servers(cluster)] == [0, 1], "whichever rank of the node came first"
        opened = group_opened(cluster)
        assert "1 servers on their own nodes" in opened and "2 servers on ranks' nodes" in opened, opened
        shared = cluster.wait_for_event("node-name-shared", 'job "test"')["reason"]
        assert shared.startswith("ranks 0 and 2 are on different nodes, and both are named localhost")


def test_ranks_with_a_host_name_each_on_one_node_share_a_server():
    with linked_cluster(1, 1, ranks_per_node=2) as cluster:
        cluster.start_scheduler()
        cluster.start_server_on(dataclasses.replace(cluster.network.workers[0], name="pod-of-server"))
        nodes = [dataclasses.replace(node, name=f"pod-{i}") for i, node in enumerate(cluster.network.workers)]
        digests(cluster.start_ranks_on(nodes, *COLOCATE))
        assert len(ranks_with_servers(cluster)) == 1
        opened = group_opened(cluster)
        assert "2 servers on ranks' nodes" in opened and "on their own nodes" not in opened, opened


def test_a_live_servers_name_is_not_taken_over_by_another_node():
    with linked_cluster(1, 2) as cluster:
        cluster.start_scheduler()
        first, second = cluster.network.servers
        live = cluster.launch_server_on(first, name="taken")
        live.wait_for_line(SERVER_LISTENS)
        refused = cluster.launch_server_on(second, "--timeout", "2000", name="taken")
        assert refused.wait() == 1
        assert f"a live server on node {first.name}" in refused.output, f"{refused}"
        assert f"this one is on node {second.name}" in refused.output, f"{refused}"
        assert live.running() and cluster.servers()["taken"]["node"] == first.name
        cluster.wait_for_event("server-refused", "server taken")
        assert "server taken on" in cluster.shoalctl_text("status")
        live.send(signal.SIGTERM)
        assert live.wait() == 0
        cluster.launch_server_on(second, name="taken").wait_for_line(SERVER_LISTENS)
        assert cluster.servers()["taken"]["node"] == second.name
