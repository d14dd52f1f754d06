"""The rank for which the others wait is named, with the cause, and so is the server for which all wait. Real
processes, each on a node of its own; needs root.

Links are shaped to a rate that two cores serve with time to spare, so that a node's link is slow and nothing else is.
"""

import contextlib

import pytest

from hosts.cluster import Cluster, linked_cluster
from hosts.network import slow_down_way
from hosts.node import LOOPBACK
from hosts.process import TIME_FACTOR, Process
from slow_job import NAMED_WITHIN_S, RANKS, SHORT_LEASE_MS, SLOW, pause, start_slow_job

# Programs with a sanitizer need more of a core for each byte: then links are slower, pauses longer and ops fewer.
RATE_MBIT = 200 / TIME_FACTOR
OPS = ["-n", str(round(300 / TIME_FACTOR))]
TURN_S = 0.04 * TIME_FACTOR  # of a server that is stopped in turns; longer than an op takes


def start_perf(cluster: Cluster, options_of: dict[int, list[str]], *options: str) -> list[Process]:
    """Ranks of the job "perf" that reduce until the test ends."""
    ranks = []
    for rank, node in enumerate(cluster.network.workers):
        with cluster.on(node):
            own = ["--net-device", node.device, "--network-only", "-n", "1000000", "-c", "0"]
            ranks.append(cluster.start_perf_rank(rank, RANKS, *own, *options, *options_of.get(rank, [])))
    return ranks


def slow_ranks(cluster: Cluster) -> dict[int, str]:
    """Their causes."""
    (document,) = cluster.shoalctl("stragglers")
    return {slow["rank"]: slow["cause"] for job in document["jobs"] for slow in job["slow_ranks"]}


def wait_for_slow(cluster: Cluster, expected: dict[int, str]) -> None:
    """They are named, and no other rank is."""
    cluster.wait_until(lambda: slow_ranks(cluster) == expected, f"the slow ranks are {expected}", NAMED_WITHIN_S)


def wait_for_metric(cluster: Cluster, slow: int) -> None:
    """The scheduler's metric has so many slow ranks of the job: it is what alerts are made of."""
    sample = 'shoal_job_slow_ranks{job="perf"}'
    cluster.wait_until(
        lambda: cluster.scheduler_metrics().get(sample) == slow, f"{sample} is {slow}", timeout_s=NAMED_WITHIN_S
    )


def wait_for_late(cluster: Cluster, expected_ms: float) -> None:
    """The only slow rank is late by so much in each op, of which other load makes a little more for a while."""
    least_ms, most_ms = 0.75 * expected_ms * TIME_FACTOR, 1.5 * expected_ms * TIME_FACTOR

    def is_late() -> bool:
        (document,) = cluster.shoalctl("stragglers")
        late = [int(slow["waited_ns_per_op"]) / 1e6 for job in document["jobs"] for slow in job["slow_ranks"]]
        return len(late) == 1 and least_ms <= late[0] <= most_ms

    cluster.wait_until(is_late, f"the slow rank is late by some {expected_ms} ms", NAMED_WITHIN_S)


def slow_servers(cluster: Cluster) -> dict[str, str]:
    """Their advice."""
    (document,) = cluster.shoalctl("stragglers")
    return {slow["name"]: slow["advice"] for job in document["jobs"] for slow in job["slow_servers"]}


@contextlib.contextmanager
def started_cluster(servers: int):
    with linked_cluster(RANKS, servers) as linked:
        for node in linked.network.workers + linked.network.servers:
            linked.network.shape_link(node, RATE_MBIT)
        linked.start_scheduler("--http", f"{linked.network.control.address}:0", lease_ttl_ms=SHORT_LEASE_MS)
        linked.start_servers()
        yield linked


@pytest.fixture
def cluster():
    with started_cluster(2) as linked:
        yield linked


def test_a_rank_that_computes_for_longer_is_named(cluster: Cluster):
    ranks = start_perf(cluster, {SLOW: pause(2)}, "-b", "256K", *pause())
    wait_for_slow(cluster, {SLOW: "late-compute"})
    wait_for_metric(cluster, slow=1)
    named = r"rank 2 of job \"perf\" on node \S+: the other ranks wait for it (\d+) % of the time, [\d.]+ ms an op"
    line = ranks[0].wait_for_line(named)
    assert 20 <= int(line.group(1)) <= 70, "20 ms of some 60"
    wait_for_late(cluster, 20)


def test_a_rank_with_a_slow_link_is_named(cluster: Cluster):
    # As a cable. What a bucket lets through at once tells no rate, and by chance that is all there is to see.
    cluster.network.shape_link(cluster.network.workers[SLOW], RATE_MBIT / 2, burst_kib=4)
    start_perf(cluster, {}, "-b", "4M")
    wait_for_slow(cluster, {SLOW: "slow-link"})


@pytest.mark.long
def test_a_rank_that_gets_results_late_is_named(cluster: Cluster):
    cluster.network.shape_link(cluster.network.workers[SLOW], RATE_MBIT, RATE_MBIT / 4)
    start_perf(cluster, {}, "-b", "1M")
    wait_for_slow(cluster, {SLOW: "slow-reader"})


@pytest.mark.long
def test_two_slow_ranks_are_named_with_their_causes(cluster: Cluster):
    cluster.network.shape_link(cluster.network.workers[SLOW], RATE_MBIT / 2, burst_kib=4)
    start_perf(cluster, {1: pause(8)}, "-b", "2M", *pause())
    wait_for_slow(cluster, {1: "late-compute", SLOW: "slow-link"})
    wait_for_metric(cluster, slow=2)


@pytest.mark.long
def test_what_is_over_is_told(cluster: Cluster):
    cluster.network.shape_link(cluster.network.workers[SLOW], RATE_MBIT / 2, burst_kib=4)
    ranks = start_perf(cluster, {}, "-b", "4M")
    wait_for_slow(cluster, {SLOW: "slow-link"})
    cluster.network.shape_link(cluster.network.workers[SLOW], RATE_MBIT)
    cluster.wait_until(lambda: not slow_ranks(cluster), "no rank is slow", NAMED_WITHIN_S)
    wait_for_metric(cluster, slow=0)
    ranks[0].wait_for_line(r"rank 2 of job \"perf\" on node \S+: nothing shows any more that the other ranks wait")
    assert "server-slow" not in {event["kind"] for event in cluster.events()}, "all servers waited for that rank"


@pytest.mark.long
def test_a_server_with_a_slow_link_is_named(cluster: Cluster):
    slow = cluster.network.servers[1]
    name = slow.name
    cluster.network.shape_link(slow, RATE_MBIT / 2)
    ranks = start_perf(cluster, {}, "-b", "4M")
    cluster.wait_until(lambda: set(slow_servers(cluster)) == {name}, f"server {name} is slow", NAMED_WITHIN_S)
    assert "its node's network link" in slow_servers(cluster)[name]
    assert slow_ranks(cluster) == {}
    wait_for_metric(cluster, slow=0)
    who = rf"server {name} on node \S+:"
    line = ranks[0].wait_for_line(rf"{who} the ranks of job \"perf\" wait for it (\d+) % of the time")
    assert 20 <= int(line.group(1)) <= 60, "it takes twice as long as the other one"
    cluster.network.shape_link(slow, RATE_MBIT)
    cluster.wait_until(lambda: not slow_servers(cluster), "no server is slow", NAMED_WITHIN_S)
    ranks[0].wait_for_line(rf"{who} job \"perf\" does not count it as slow any more")


@pytest.mark.long
def test_a_slow_way_from_one_rank_to_one_server_is_named(cluster: Cluster):
    node, server = cluster.network.workers[SLOW], cluster.network.servers[1]
    slow_down_way(node, server, RATE_MBIT / 10)
    start_perf(cluster, {}, "-b", "4M")
    advice = f"what rank {SLOW} sends"
    # It may be told as a slow server first: the server's windows of five ops are as long as those of the ranks.
    cluster.wait_until(lambda: advice in slow_servers(cluster).get(server.name, ""), advice, NAMED_WITHIN_S)
    assert set(slow_servers(cluster)) == {server.name}
    assert slow_ranks(cluster) == {}


@contextlib.contextmanager
def one_node_cluster():
    with Cluster() as cluster:
        cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=SHORT_LEASE_MS)
        yield cluster


def test_over_shared_memory_a_rank_that_computes_for_longer_is_named():
    with one_node_cluster() as cluster:
        for name in ("alpha", "beta"):
            cluster.start_server(name)
        start_slow_job(cluster)
        wait_for_slow(cluster, {SLOW: "late-compute"})
        wait_for_metric(cluster, slow=1)


@pytest.mark.long
def test_on_one_node_without_servers_a_rank_that_computes_for_longer_is_named():
    with one_node_cluster() as cluster:
        ranks = start_slow_job(cluster, "auto")
        wait_for_slow(cluster, {SLOW: "late-compute"})
        wait_for_metric(cluster, slow=1)
        line = ranks[0].wait_for_line(r"the other ranks wait for it (\d+) % of the time, [\d.]+ ms an op")
        assert 40 <= int(line.group(1)) <= 75, "40 ms of some 60"
        wait_for_late(cluster, 40)


@pytest.mark.long
def test_on_one_node_without_servers_equal_ranks_are_not_named():
    with one_node_cluster() as cluster:
        options = ["-c", "0", "-b", "256K", *pause(), "-n", str(round(600 / TIME_FACTOR))]
        end_silent_run(cluster, [cluster.start_perf_rank(rank, RANKS, *options) for rank in range(RANKS)])


@pytest.mark.long
def test_a_rank_of_a_node_that_computes_for_longer_is_named_where_ranks_of_a_node_reduce_first():
    with linked_cluster(2, 2, ranks_per_node=2) as linked:
        linked.start_scheduler(lease_ttl_ms=SHORT_LEASE_MS)
        linked.start_servers()
        for rank in range(RANKS):
            node = linked.network.workers[rank // 2]
            with linked.on(node):
                own = ["--net-device", node.device, "-n", "1000000", "-c", "0", "-b", "256K"]
                linked.start_perf_rank(rank, RANKS, *own, *pause(3 if rank == SLOW + 1 else 1))
        wait_for_slow(linked, {SLOW + 1: "late-compute"})


def test_over_shared_memory_a_server_that_gets_half_of_the_time_is_named():
    with one_node_cluster() as cluster:
        servers = {name: cluster.start_server(name) for name in ("alpha", "beta", "gamma")}
        for rank in range(RANKS):
            options = ["--node-reduce", "off", "--min-servers", "3", "-n", "1000000", "-c", "0", "-b", "16M"]
            cluster.start_perf_rank(rank, RANKS, *options)
        with servers["beta"].stopped_in_turns(TURN_S):
            cluster.wait_until(lambda: set(slow_servers(cluster)) == {"beta"}, "beta is slow", NAMED_WITHIN_S)
            assert "processor time" in slow_servers(cluster)["beta"]
        assert slow_ranks(cluster) == {}


# Ops are queued, so that the links are full all the time. One rank is always behind the others then. Queued ops do not
# tell which way of a link is slow (docs/adr/0021): those before do, which follow one another.
QUEUED = ["-b", "1M", "--in-flight", "4", "-w", "20"]


def end_silent_run(cluster: Cluster, ranks: list[Process]) -> None:
    """They end without an alert."""
    for rank in ranks:
        assert rank.wait(60 * TIME_FACTOR) == 0
    assert cluster.scheduler_metrics().get('shoal_job_slow_ranks{job="perf"}', 0) == 0
    assert not [event for event in cluster.events() if event["kind"].endswith("-slow")], cluster.events()


@pytest.mark.long
def test_equal_ranks_with_queued_ops_are_not_named(cluster: Cluster):
    # A rank and a colocated server on each worker's node, and shares that differ: 300 ops take 13 seconds.
    end_silent_run(cluster, start_perf(cluster, {}, *QUEUED, *OPS))


@pytest.fixture
def four_servers():
    with started_cluster(4) as linked:
        yield linked


@pytest.mark.long
def test_equal_ranks_with_queued_ops_on_as_many_servers_are_not_named(four_servers: Cluster):
    end_silent_run(four_servers, start_perf(four_servers, {}, *QUEUED, *OPS))


@pytest.mark.long
def test_a_rank_with_a_slow_link_is_named_where_ops_are_queued(four_servers: Cluster):
    four_servers.network.shape_link(four_servers.network.workers[SLOW], RATE_MBIT / 2)
    start_perf(four_servers, {}, *QUEUED)
    wait_for_slow(four_servers, {SLOW: "slow-link"})


@pytest.mark.long
def test_two_ranks_with_slow_links_are_named_where_ops_are_queued(four_servers: Cluster):
    for rank in (1, SLOW):
        four_servers.network.shape_link(four_servers.network.workers[rank], RATE_MBIT / 2)
    start_perf(four_servers, {}, *QUEUED)
    wait_for_slow(four_servers, {1: "slow-link", SLOW: "slow-link"})


@pytest.mark.long
def test_a_rank_that_computes_for_longer_is_named_where_ops_are_queued(four_servers: Cluster):
    start_perf(four_servers, {SLOW: pause()}, "-b", "256K", "--in-flight", "4")
    wait_for_slow(four_servers, {SLOW: "late-compute"})


@pytest.mark.long
def test_equal_ranks_and_servers_are_not_named(cluster: Cluster):
    end_silent_run(cluster, start_perf(cluster, {}, "-b", "1M", *pause(), *OPS))
