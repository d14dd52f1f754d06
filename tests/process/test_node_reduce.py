"""Ranks of one node that reduce among themselves, without any server, or may not. Real processes."""

import json
import pathlib
import re
import signal
import sys
import time

from hosts.cluster import Cluster, program
from job_runs import digests, refusal, wait_for_line_of_all

LEASE_TTL_MS = 30_000
COUNT = 700_000  # more than the memory that ranks share
ON_NODE = ["--node-reduce", "host", "--count", str(COUNT), "--rounds", "3"]


def test_i1_ranks_of_a_node_get_the_bits_that_servers_give(cluster: Cluster):
    cluster.start_scheduler()
    on_node = digests(cluster.start_ranks(3, "--job", "on-node", *ON_NODE))
    cluster.start_server("alpha")
    through_servers = digests(cluster.start_ranks(3, "--job", "servers", *ON_NODE, "--node-reduce", "off"))
    assert on_node == through_servers and len(on_node) == 1


def test_i8_a_rank_that_is_killed_is_named_long_before_its_lease_runs_out(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    ranks = cluster.start_ranks(3, *ON_NODE, "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    for rank in ranks[:2]:
        rank.say()
    killed_at = time.monotonic()
    ranks[2].send(signal.SIGKILL)
    for rank in ranks[:2]:
        text = refusal(rank)  # which names the op only if it had been started by then
        assert re.search(r"^ABORTED: rank 2 of the job on \S+ was lost: ", text), text
    assert time.monotonic() - killed_at < LEASE_TTL_MS / 1000 / 2, "the node notices, not the scheduler"


def test_i6_ranks_of_a_node_go_on_without_a_scheduler(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    ranks = cluster.start_ranks(2, *ON_NODE, "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    for rank in ranks:
        rank.say()
    wait_for_line_of_all(ranks, "^round 1 done$")
    cluster.start_scheduler(listen=cluster.scheduler_address)
    for rank in ranks:
        rank.say()
        rank.say()
    assert len(digests(ranks)) == 1


WITHOUT_SHARED_MEMORY = str(pathlib.Path(__file__).with_name("without_shared_memory.py"))


def test_ranks_that_may_not_make_shared_memory_use_the_network(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler()
    cluster.start_server("server-0")
    report = tmp_path / "report"
    command = [sys.executable, WITHOUT_SHARED_MEMORY, program("shoal-perf"), "--scheduler", cluster.scheduler_address]
    command += ["--world-size", "2", "-b", "64K", "-e", "64K", "-n", "3", "--json", str(report)]
    ranks = [cluster.start([*command, "--rank", str(rank)], {"SHOAL_NODE_REDUCE": "auto"}) for rank in range(2)]
    for rank in ranks:
        assert rank.wait() == 0, str(rank)
    written = json.loads(report.read_text())
    assert written["wrong"] == 0
    assert [server["transport"].split("/")[0] for server in written["servers"]] == ["tcp"]
    assert "security profile" in cluster.wait_for_event("group-opened", "")["reason"]
