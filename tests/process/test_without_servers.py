"""No server is left: ranks run colocated servers for their job, and nobody fails (F6). Real processes."""

import re
import signal

import pytest

from hosts.cluster import Cluster
from held_job import LEASE_TTL_MS, ROUNDS, start_held_job, undisturbed_digest
from job_runs import digests, let_go_on, wait_for_line_of_all

COLOCATE = ["--without-servers", "colocate"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_f6_ops_go_on_with_servers_of_the_ranks_and_give_way_to_the_next_one(cluster: Cluster, nodes: int):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    expected = undisturbed_digest(cluster)
    ranks = [
        cluster.start_rank(
            rank, 4, "--job", "orphans", "--count", "150001", "--rounds", str(ROUNDS), "--hold", *COLOCATE,
            "--node-name", f"node-{rank % nodes}",
        )
        for rank in range(4)
    ]  # fmt: skip
    wait_for_line_of_all(ranks, "^round 0 done$")
    # It stands still first, so that an op is under way for sure when it dies.
    server.send(signal.SIGSTOP)
    let_go_on(ranks)
    server.send(signal.SIGKILL)
    for rank in ranks[:nodes]:
        rank.wait_for_line(
            r'^shoal: rank \d of job "orphans": no reduction server is left'
            r" \(server alpha is lost \(no heartbeat .*\)\): "
            "this process runs a colocated server for its job now$"
        )
    wait_for_line_of_all(ranks, "^round 1 done$")
    assert not any("runs a colocated server" in rank.output for rank in ranks[nodes:]), "one a node is enough"
    cluster.told("F6", "colocation-requested", r'^job "orphans": no server is left \(server alpha is lost')
    colocated = [name for name, server in cluster.servers().items() if re.search(r"-job\d+-rank\d$", name)]
    assert len(colocated) == nodes
    moves = len(cluster.wait_for_move("orphans", nodes))
    cluster.start_server("alpha")
    if nodes == 1:  # a server on the ranks' own node moves no byte over the network, so it keeps all
        cluster.wait_for_server("alpha", "live")
    else:
        cluster.wait_for_move("orphans", moves + 1)
    let_go_on(ranks, ROUNDS - 1)
    assert digests(ranks) == expected


def test_f6_without_the_offer_ops_wait_for_a_server(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    ranks = start_held_job(cluster, "patient")
    server.send(signal.SIGKILL)
    let_go_on(ranks)
    cluster.wait_for_server("alpha", "lost")
    assert not any("round 1 done" in rank.output for rank in ranks)
    cluster.start_server("beta")
    let_go_on(ranks, ROUNDS - 1)
    assert len(digests(ranks)) == 1
