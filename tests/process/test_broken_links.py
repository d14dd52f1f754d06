"""Links that break in the middle of an op: of a server, of a rank, of the scheduler. The bits are the undisturbed
ones."""

import signal
import time
from collections.abc import Callable

import pytest

from hosts.cluster import SERVER_LISTENS, Cluster, linked_cluster
from hosts.network import Network, cut_path
from hosts.node import Node
from hosts.process import Process
from job_runs import digests, let_go_on, refusal, wait_for_line_of_all

LEASE_TTL_MS = 1500
LEASE_TTL_S = LEASE_TTL_MS / 1000
KERNEL_NOTICES_S = 5  # within one or two
RANKS = 3
ROUNDS = 4
# Small chunks are sent at once: a server that stands still has them in its kernel. Large ones wait to be asked for.
OPTIONS = ["--count", "150001", "--rounds", str(ROUNDS), "--hold", "--chunk-bytes", "65536"]


@pytest.fixture(scope="module")
def undisturbed() -> set[str]:
    """The digest that all runs must have: it does not depend on servers and links."""
    with Cluster() as cluster:
        cluster.start_scheduler()
        cluster.start_server("alpha")
        ranks = cluster.start_ranks(RANKS, "--job", "undisturbed", *OPTIONS)
        let_go_on(ranks, ROUNDS)
        found = digests(ranks)
    assert len(found) == 1
    return found


def start_job(cluster: Cluster, job: str, servers: int) -> list[Process]:
    """Held after its first round."""
    nodes = cluster.network.workers[:RANKS]
    ranks = cluster.start_ranks_on(nodes, "--job", job, "--min-servers", str(servers), *OPTIONS)
    wait_for_line_of_all(ranks, "^round 0 done$")
    return ranks


def begin_op_at(cluster: Cluster, node: Node, server: Process, ranks: list[Process]) -> None:
    """The ranks are in the middle of an op when this returns, and the server stands still: a part of it has arrived."""
    before = cluster.network.bytes_received(node)
    server.send(signal.SIGSTOP)
    let_go_on(ranks)
    # Of one rank at least: its kernel takes some 64 KiB for a program that stands still, and other ranks may be late.
    cluster.wait_until(lambda: cluster.network.bytes_received(node) > before + (16 << 10), "payload has arrived")


def break_in_mid_op(
    cluster: Cluster, job: str, servers: int, victim: Node, break_link: Callable
) -> list[Process]:
    """Breaks a server's link while it holds a part of an op; the op ends within the lease and two seconds."""
    processes = cluster.start_servers()
    ranks = start_job(cluster, job, servers=servers)
    begin_op_at(cluster, victim, processes[victim.name], ranks)
    break_link(cluster.network, victim)
    processes[victim.name].send(signal.SIGCONT)
    broken_at = time.monotonic()
    wait_for_line_of_all(ranks, "^round 1 done$")
    assert time.monotonic() - broken_at < LEASE_TTL_S + 2
    return ranks


def set_device_down(network: Network, node: Node) -> None:
    node.run(["ip", "link", "set", node.device, "down"])


@pytest.mark.parametrize("cut", [Network.pull_cable, Network.silence_cable], ids=["pulled", "silent"])
def test_f3_a_servers_cable_breaks_in_mid_op_and_is_mended_later(cut, undisturbed: set[str]):
    with linked_cluster(RANKS, 3) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        victim = cluster.network.servers[1]
        ranks = break_in_mid_op(cluster, "cut", 3, victim, cut)
        cluster.network.mend_cable(victim)
        moves = cluster.wait_for_move("cut", 2)
        assert "with 3 shards" in moves[-1]["reason"]
        sent_before = cluster.bytes_out(victim.name)
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == undisturbed
        cluster.wait_until(lambda: cluster.bytes_out(victim.name) > sent_before, "the server serves again")


def test_f3_a_servers_device_goes_down_for_good_in_mid_op(undisturbed: set[str]):
    with linked_cluster(RANKS, 2) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        victim = cluster.network.servers[0]
        ranks = break_in_mid_op(cluster, "down", 2, victim, set_device_down)
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == undisturbed
        assert cluster.servers()[victim.name]["state"] == "lost"


def pull_cable(network: Network, node: Node) -> None:
    """Returns when the node knows."""
    network.pull_cable(node)
    deadline = time.monotonic() + KERNEL_NOTICES_S
    while "NO-CARRIER" not in node.run(["ip", "-o", "link", "show", "dev", node.device]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_i10_ranks_that_are_started_while_a_cable_is_pulled_work_when_it_is_back(undisturbed: set[str]):
    with linked_cluster(RANKS, 1) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        late = cluster.network.workers[1]
        pull_cable(cluster.network, late)
        ranks = cluster.start_ranks_on(cluster.network.workers, "--job", "late", "--timeout-ms", "12000", *OPTIONS)
        ranks[1].wait_for_line("waited .* for a scheduler")
        cluster.network.mend_cable(late)
        mended_at = time.monotonic()
        wait_for_line_of_all(ranks, "^round 0 done$")
        assert time.monotonic() - mended_at < LEASE_TTL_S + 1
        let_go_on(ranks, ROUNDS)
        assert digests(ranks) == undisturbed


@pytest.mark.parametrize("named", [True, False], ids=["named", "found"])
def test_a_server_that_is_started_while_its_cable_is_pulled_says_so_and_waits(named: bool):
    with linked_cluster(0, 1) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        node = cluster.network.servers[0]
        device = node.device if named else ""
        pull_cable(cluster.network, node)
        gives_up = cluster.launch_server_on(node, "--net-device", device, "--timeout", "400")
        assert gives_up.wait() == 1
        no_link = f"network device {node.device}.* has no link"
        gives_up.wait_for_line(f"ERROR server server-failed: waited 0.4 s in vain: {no_link}")
        server = cluster.launch_server_on(node, "--net-device", device, "--timeout", "10000")
        server.wait_for_line(f"link-missing: waited .* for a link .*: {no_link}")
        cluster.network.mend_cable(node)
        server.wait_for_line(SERVER_LISTENS)
        assert cluster.servers()[node.name]["state"] == "live"


def test_f5_a_rank_is_cut_off_from_one_server_whose_lease_runs_on(undisturbed: set[str]):
    """3 to 4 s until silence is a broken connection, 2 s to reach the server again, and a second to spare."""
    with linked_cluster(RANKS, 2) as cluster:
        cluster.start_scheduler(lease_ttl_ms=60_000)
        servers = cluster.start_servers()
        victim = cluster.network.servers[0]
        ranks = start_job(cluster, "path", servers=2)
        begin_op_at(cluster, victim, servers[victim.name], ranks)
        cut_path(cluster.network.workers[1], victim)
        servers[victim.name].send(signal.SIGCONT)
        cut_at = time.monotonic()
        wait_for_line_of_all(ranks, "^round 1 done$")
        print(f"the op took {time.monotonic() - cut_at:.1f} s")
        assert time.monotonic() - cut_at < 4 + 2 + 1
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == undisturbed
        assert {server["state"] for server in cluster.servers().values()} == {"live"}
        kinds = [event["kind"] for event in cluster.events()]
        assert kinds.count("group-moved") == 1 and "rank-lost" not in kinds, kinds
        cluster.told("F5", "group-moved", rf"rank 1 lost server {victim.name}: ")
        cluster.told("F5", "rank-absent", r"rank=1\)", servers[victim.name])


def test_f3_a_servers_cable_that_is_silent_for_a_short_time_costs_that_time_alone(undisturbed: set[str]):
    """A heartbeat is due every third of the lease; one that is lost comes again when TCP's doubling waits have run out,
    0.2 s and twice the silence later."""
    lease_ttl_s = 4.5  # a third, and 1.2 s: 1.8 s to spare
    with linked_cluster(RANKS, 2) as cluster:
        cluster.start_scheduler(lease_ttl_ms=int(lease_ttl_s * 1000))
        servers = cluster.start_servers()
        victim = cluster.network.servers[0]
        ranks = start_job(cluster, "short", servers=2)
        begin_op_at(cluster, victim, servers[victim.name], ranks)
        cluster.network.silence_cable(victim)
        servers[victim.name].send(signal.SIGCONT)
        time.sleep(0.5)  # how long it is broken
        cluster.network.mend_cable(victim)
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == undisturbed
        kinds = {event["kind"] for event in cluster.events()}
        assert kinds.isdisjoint({"server-lost", "rank-lost", "group-moved"}), kinds


def test_f11_a_rank_whose_cable_is_silent_fails_its_job_within_the_lease_and_no_other(undisturbed: set[str]):
    with linked_cluster(RANKS + 1, 2) as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        bystanders = start_job(cluster, "bystanders", servers=2)
        lonely = cluster.network.workers[-1]
        nodes = [*cluster.network.workers[:2], lonely]
        ranks = cluster.start_ranks_on(nodes, "--job", "cut", "--min-servers", "2", *OPTIONS)
        wait_for_line_of_all(ranks, "^round 0 done$")
        cluster.network.silence_cable(lonely)
        cut_at = time.monotonic()
        let_go_on([*ranks, *bystanders])
        for rank in ranks[:2]:
            text = refusal(rank)
            assert time.monotonic() - cut_at < LEASE_TTL_S + 1
            assert text.startswith("ABORTED")
            assert "rank 2" in text and lonely.name in text
        let_go_on(bystanders, ROUNDS - 1)
        assert digests(bystanders) == undisturbed
        for node in cluster.network.servers:
            cluster.wait_until(
                lambda name=node.name: cluster.servers()[name].get("load", {}).get("groups_open", 0) == 0,
                f"{node.name} has freed the job's memory",
            )


def test_f12_the_schedulers_cable_is_silent_for_two_leases_and_nobody_is_called_lost(undisturbed: set[str]):
    lease_ttl_s = 2.5  # members try for up to two seconds before they try anew
    with linked_cluster(RANKS, 2) as cluster:
        cluster.start_scheduler(lease_ttl_ms=int(lease_ttl_s * 1000))
        cluster.start_servers()
        ranks = start_job(cluster, "alone", servers=2)
        cluster.network.silence_cable(cluster.network.control)
        let_go_on(ranks)
        wait_for_line_of_all(ranks, "^round 1 done$")
        time.sleep(2 * lease_ttl_s)  # how long it is broken
        cluster.network.mend_cable(cluster.network.control)
        cluster.told("F12", "scheduler-reached", "")
        cluster.told("F12", "scheduler-cut-off", "")
        reached_at = time.monotonic()
        cluster.wait_until(
            lambda: time.monotonic() > reached_at + 1.2 * lease_ttl_s, "all leases were renewed, or ran out"
        )
        let_go_on(ranks, ROUNDS - 1)
        assert digests(ranks) == undisturbed
        kinds = {event["kind"] for event in cluster.events()}
        assert kinds.isdisjoint({"server-lost", "rank-lost", "group-moved"}), kinds
        late = cluster.start_ranks_on(cluster.network.workers, "--job", "late", "--min-servers", "2", *OPTIONS)
        let_go_on(late, ROUNDS)
        assert digests(late) == undisturbed
