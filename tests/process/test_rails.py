"""Ranks on several nodes with several ranks each, which reduce within their nodes first: the real programs, each node a
network namespace. The bits are those of docs/numerics.md, whatever happens to servers on the way; a rank that dies is
named on all nodes."""

import functools
import hashlib
import re
import signal
import time

import numpy
import pytest

from hosts.cluster import Cluster, linked_cluster, program
from hosts.process import Process
from job_runs import digests, let_go_on, reduce_until, refusal, wait_for_line_of_all
from rank_program import TYPES, make_input

LEASE_TTL_MS = 1500
NODES = 2
RANKS_PER_NODE = 2
RANKS = NODES * RANKS_PER_NODE
ROUNDS = 3
COUNT = 100_003  # two rounds through the memory that ranks share, and no multiple of anything
CHUNK_BYTES = [16 << 10, 40_000, 64 << 10, 256 << 10, 1 << 20]
OPTIONS = ["--node-reduce", "auto", "--count", str(COUNT), "--rounds", str(ROUNDS)]
RAILS = f"{RANKS} ranks as {RANKS_PER_NODE} rails x {NODES} nodes"


def add_in_order(tensors: list[numpy.ndarray]) -> numpy.ndarray:
    return functools.reduce(numpy.add, tensors)  # rounds float32 after each addition, wraps int32


@functools.cache
def expected_digest(dtype: str, ranks_per_node: int) -> str:
    """Of a job whose nodes have so many ranks each; 1: its ranks do not reduce within their nodes."""
    digest = hashlib.sha256()
    for round_number in range(ROUNDS):
        inputs = [numpy.array(make_input(rank, round_number, COUNT, dtype)) for rank in range(RANKS)]
        nodes = [add_in_order(inputs[first : first + ranks_per_node]) for first in range(0, RANKS, ranks_per_node)]
        digest.update(add_in_order(nodes).tobytes())
    return digest.hexdigest()


def how_it_opened(cluster: Cluster, job: str) -> str:
    return cluster.wait_for_event("group-opened", f'job "{job}"')["reason"]


def test_many_ranks_of_a_node_find_about_the_rate_of_its_link():
    with linked_cluster(NODES, 2, ranks_per_node=8) as cluster:
        for node in {node.name: node for node in cluster.network.workers}.values():
            cluster.network.shape_link(node, 200)
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_ranks_within(cluster.network.workers, "--min-servers", "2", *OPTIONS)
        cluster.wait_for_event("job-running", "")
        cluster.start_servers()  # for which all ranks have waited
        opened = cluster.wait_for_event("group-opened", "")["reason"]
        rate_mb = int(re.search(r"link (\d+) MB/s", opened)[1])
        # A rank that waits for a processor meanwhile takes the link for up to four times as fast, less its burst.
        assert 20 <= rate_mb <= 110, f"of 25 MB/s: {opened}"


def test_chunks_fit_the_ports_that_the_scheduler_was_told_of():
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler("--port-buffer=96K", lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        ranks = cluster.start_ranks_within(cluster.network.workers, "--job", "told", "--min-servers", "2", *OPTIONS)
        assert digests(ranks) == {expected_digest("float32", RANKS_PER_NODE)}
        opened = how_it_opened(cluster, "told")
        assert "ports of 98304 bytes" in opened
        # Two of each rank fit the port of each server; a third is for what is on its way, and an eighth for headers.
        chunk_bytes = int(re.search(r"chunks of (\d+) bytes in flight", opened)[1])
        assert RANKS * 2 * chunk_bytes <= 84 << 10, opened


def test_replicas_share_the_ports_of_their_nodes():
    split = f"mod:{RANKS_PER_NODE}"
    options = ["-b", "1M", "-n", "2", "-w", "1", "--min-servers", "2", "--colocate", "off"]
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        ranks = cluster.start_perf_ranks_on(cluster.network.workers, "--split", split, *options)
        assert [rank.wait() for rank in ranks] == [0] * RANKS, "sums are checked, and are another group's nowhere"
        assert f"{RANKS} ranks, in groups by {split}" in str(ranks[0])
        opened = cluster.wait_for_event("group-opened", 'group "shoal-perf-1" of job "perf"')["reason"]
        assert f"as if all {RANKS} ranks of the job reduced at once" in opened


def start_held_job(cluster: Cluster, job: str, *options: str) -> list[Process]:
    held = ["--job", job, "--min-servers", "2", "--chunk-bytes", "65536", "--hold", *OPTIONS, *options]
    ranks = cluster.start_ranks_within(cluster.network.workers, *held)
    wait_for_line_of_all(ranks, "^round 0 done$")
    assert RAILS in how_it_opened(cluster, job)
    return ranks


@pytest.mark.parametrize("dtype", TYPES)
def test_i1_rails_sum_nodes_and_flat_groups_ranks_in_order(dtype: str):
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        for choice, ranks_per_node in [("auto", RANKS_PER_NODE), ("off", 1)]:
            options = [*OPTIONS, "--node-reduce", choice, "--type", dtype, "--min-servers", "2"]
            ranks = cluster.start_ranks_within(cluster.network.workers, "--job", choice, *options)
            assert digests(ranks) == {expected_digest(dtype, ranks_per_node)}
            assert (RAILS in how_it_opened(cluster, choice)) == (choice == "auto")
    # Otherwise the order is not shown; sums of integers have none.
    same_bits = expected_digest(dtype, RANKS_PER_NODE) == expected_digest(dtype, 1)
    assert same_bits == (dtype == "int32")


def test_i1_the_bits_do_not_depend_on_the_number_of_servers_and_the_chunk_size():
    with linked_cluster(NODES, 4, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        for count, node in enumerate(cluster.network.servers, start=1):
            cluster.start_server_on(node)
            for chunk_bytes in CHUNK_BYTES:
                job = f"{count}-servers-{chunk_bytes}"
                options = [*OPTIONS, "--min-servers", str(count), "--chunk-bytes", str(chunk_bytes)]
                ranks = cluster.start_ranks_within(cluster.network.workers, "--job", job, *options)
                assert digests(ranks) == {expected_digest("float32", RANKS_PER_NODE)}, job
                opened = how_it_opened(cluster, job)
                assert RAILS in opened and f", {count} servers on their own nodes" in opened, opened


def test_f2_a_server_is_killed_in_the_middle_of_an_op_of_rails_and_none_fails():
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        servers = cluster.start_servers()
        ranks = start_held_job(cluster, "killed")
        victim = cluster.network.servers[0]
        before = cluster.network.bytes_received(victim)
        servers[victim.name].send(signal.SIGSTOP)  # so that the op is under way for sure when it dies
        let_go_on(ranks)
        cluster.wait_until(lambda: cluster.network.bytes_received(victim) > before + (16 << 10), "payload has arrived")
        servers[victim.name].send(signal.SIGKILL)
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == {expected_digest("float32", RANKS_PER_NODE)}
        # Each rail has moved by itself.
        moves = cluster.wait_for_move("killed", RANKS_PER_NODE)
        assert {re.match(r"rail (\d+) of ", move["subject"]).group(1) for move in moves} == {"0", "1"}


def test_the_results_of_ranks_on_different_rails_are_compared():
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        ranks = start_held_job(cluster, "compared", "--rounds", "1000000")
        command = [program("shoalctl"), "--scheduler", cluster.scheduler_address, "verify", "compared"]
        comparison = cluster.start([*command, "--seconds", "0.5"])
        reduce_until(ranks, lambda: not comparison.running())
        assert comparison.wait() == 0
        said = r"[1-9]\d* all-reduces of 1 group compared over 4 ranks: each has the same bits"
        assert re.match(said, comparison.output), comparison.output


@pytest.mark.parametrize("victim", [0, 3])
def test_i8_a_rank_that_is_killed_ends_the_op_on_all_nodes_with_its_name(victim: int):
    with linked_cluster(NODES, 2, RANKS_PER_NODE) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        ranks = start_held_job(cluster, "dead-rank")
        server = cluster.network.servers[0]
        before = cluster.network.bytes_received(server)
        others = [rank for number, rank in enumerate(ranks) if number != victim]
        let_go_on(others)
        # The victim's node waits for it, while the other has its sum and has pushed it.
        cluster.wait_until(lambda: cluster.network.bytes_received(server) > before + (16 << 10), "payload has arrived")
        ranks[victim].send(signal.SIGKILL)
        killed_at = time.monotonic()
        for rank in others:
            text = refusal(rank)
            name = f"rank {victim} of the job on {cluster.network.workers[victim].name}"
            # On another node it may be a rank of the victim's that says so.
            assert re.search(rf"^ABORTED: .*\b{name} was lost: ", text), text
        assert time.monotonic() - killed_at < LEASE_TTL_MS / 1000 + 1
