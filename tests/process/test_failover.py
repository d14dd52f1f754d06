"""Servers that die, stand still, leave and come while ranks reduce: nobody fails, and the bits are the undisturbed
ones."""

import signal
import time

import pytest

from hosts.cluster import Cluster
from held_job import LEASE_TTL_MS, ROUNDS, start_held_job, undisturbed_digest
from job_runs import digests, let_go_on, wait_for_line_of_all


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_f2_servers_killed_in_the_middle_of_an_op_down_to_the_last(cluster: Cluster, network: list[str]):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta", "gamma")}
    options = ["--min-servers", "3", *network]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "killed", *options)
    for number, name in enumerate(["beta", "alpha"]):
        # It stands still first, so that an op is under way for sure when it dies.
        servers[name].send(signal.SIGSTOP)
        let_go_on(ranks)
        servers[name].send(signal.SIGKILL)
        wait_for_line_of_all(ranks, f"^round {number + 1} done$")
    cluster.wait_for_move("killed", 2)
    cluster.told("F1", "group-moved", r'^group "world" of job "killed": to epoch \d+ with 1 shards: ')
    cluster.told("F1", "shard-group-moved", r"\(job=\d+ group=\d+ epoch=\d+\): from epoch \d+", servers["gamma"])
    cluster.told("F2", "group-moved", r'job "killed": .*: rank \d lost server beta: ')
    cluster.told("F2", "server-lost", r"^server beta: no heartbeat for ")
    restarted = cluster.start_server("beta")
    moves = cluster.wait_for_move("killed", 3)
    assert "with 2 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - 2)
    assert digests(ranks) == expected
    assert restarted.running()
    cluster.wait_until(lambda: cluster.bytes_out("beta") > 0, "the restarted server has served")


def test_f3_a_server_that_stands_still_is_done_without_and_may_come_back(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    stopped = cluster.start_server("alpha")
    cluster.start_server("beta")
    options = ["--min-servers", "2"]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "stopped", *options)
    stopped.send(signal.SIGSTOP)
    let_go_on(ranks, 2)
    wait_for_line_of_all(ranks, "^round 2 done$")
    stopped.send(signal.SIGCONT)
    moves = cluster.wait_for_move("stopped", 2)
    cluster.told("F3", "server-lost", r"^server alpha: no heartbeat for ")
    cluster.told("F3", "server-returned", r"^server alpha: ")
    assert "with 2 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - 2)
    assert digests(ranks) == expected


def test_f4_servers_are_restarted_one_by_one_and_added_without_a_failed_op(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    options = ["--min-servers", "2"]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "rolling", *options)
    done = 0
    for name in ("alpha", "beta"):
        servers[name].send(signal.SIGTERM)
        let_go_on(ranks)
        cluster.told("F4", "server-left", rf"^server {name}: SIGTERM")
        cluster.told("F4", "server-leaving", "SIGTERM", servers[name])
        assert servers[name].wait() == 0, f"{servers[name]}"
        assert "although groups are open" not in servers[name].output, "its group has moved: nothing is waited for"
        done += 1
        wait_for_line_of_all(ranks, f"^round {done} done$")
        servers[name] = cluster.start_server(name)
    cluster.start_server("gamma")
    moves = cluster.wait_for_move("rolling", 5)
    assert "with 3 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - done)
    assert digests(ranks) == expected
    cluster.wait_until(lambda: cluster.bytes_out("gamma") > 0, "the added server has served")


def test_f12_everybody_shows_up_within_the_one_lease_that_a_restarted_scheduler_gives(cluster: Cluster, tmp_path):
    state_file = str(tmp_path / "state")
    scheduler = cluster.start_scheduler("--state-file", state_file, lease_ttl_ms=LEASE_TTL_MS)
    address = cluster.scheduler_address
    server = cluster.start_server("alpha")
    ranks = start_held_job(cluster, "kept")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    let_go_on(ranks)
    wait_for_line_of_all(ranks, "^round 1 done$")
    # The ranks have asked in vain for as long.
    cluster.told("F12", "lease-missing", "no lease from the scheduler .*open groups continue", server)
    cluster.start_scheduler("--state-file", state_file, listen=address, lease_ttl_ms=LEASE_TTL_MS)
    back_at = time.monotonic()
    cluster.told("F12", "scheduler-started", "")
    cluster.told("F12", "lease-renewed-again", "answers again after", server)
    cluster.wait_until(
        lambda: time.monotonic() > back_at + 1.5 * LEASE_TTL_MS / 1000, "all leases were renewed, or ran out"
    )
    kinds = {event["kind"] for event in cluster.events()}
    assert kinds.isdisjoint({"server-lost", "rank-lost"}), kinds
    let_go_on(ranks, ROUNDS - 1)
    assert len(digests(ranks)) == 1
