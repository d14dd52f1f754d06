"""I8, F11: a rank that is lost fails its own job, by name and in time, and nobody else's. Real processes."""

import re
import signal
import time

import pytest

from hosts.cluster import Cluster
from hosts.process import Process
from job_runs import digests, wait_for_line_of_all

LEASE_TTL_MS = 2000
BOUND_S = LEASE_TTL_MS / 1000 + 1
COUNT = 300_000  # several chunks


def load_of(cluster: Cluster, server: str) -> dict[str, int]:
    load = cluster.servers()[server].get("load", {})
    return {key: int(load.get(key, 0)) for key in ("groups_open", "slot_memory_used_bytes")}


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_i8_survivors_are_told_in_time_and_others_do_not_notice(
    cluster: Cluster, number: signal.Signals, network: list[str]
):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    bystanders = cluster.start_ranks(2, "--job", "bystanders", "--rounds", "4", "--hold", *network)
    wait_for_line_of_all(bystanders, "^round 0 done$")
    before = cluster.wait_until(
        lambda: (load := load_of(cluster, "alpha"))["groups_open"] == 1 and load, "the bystanders' group is counted"
    )
    ranks = cluster.start_ranks(3, "--count", str(COUNT), "--rounds", "3", "--hold", *network)
    wait_for_line_of_all(ranks, "^round 0 done$")
    for rank in ranks[:2]:
        rank.say()  # an op is under way that rank 2 has no part in yet
    lost_at = time.monotonic()
    ranks[2].send(number)
    for rank in bystanders:
        rank.say()
    try:
        texts = [told(rank, lost_at) for rank in ranks[:2]]
        for text in texts:
            assert re.search(r"^ABORTED: (rank \d on \S+: )?rank 2( of the job)? on \S+ was lost: ", text), text
            assert re.search(r'; all-reduce 2 of group "world" \(300000 float32\): 0 of \d+ chunks are back$', text), (
                text
            )
        wait_for_line_of_all(bystanders, "^round 1 done$")
        cluster.wait_until(lambda: load_of(cluster, "alpha") == before, "all memory of the job is free again")
        cluster.wait_until(lambda: state_of_job(cluster, "test") == "failed", "the scheduler counts the job as failed")
        cluster.told("F11", "rank-lost", r'^rank 2 .*of job "test"')
        cluster.told("F11", "job-failed", r'^job "test": .*rank 2')
    finally:
        if number == signal.SIGSTOP:
            ranks[2].send(signal.SIGCONT)
    if number == signal.SIGSTOP:
        ranks[2].say()
        assert ranks[2].wait() == 1, "who comes back late is told as well"
        assert "ABORTED" in ranks[2].output
    for rank in bystanders:
        for _ in range(3):
            rank.say()
    assert len(digests(bystanders)) == 1


def test_f11_a_rank_that_dies_after_the_scheduler_has_lost_its_state_is_given_up_by_the_server(cluster: Cluster):
    scheduler = cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    ranks = cluster.start_ranks(3, "--count", str(COUNT), "--rounds", "3", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    cluster.start_scheduler(listen=cluster.scheduler_address, lease_ttl_ms=LEASE_TTL_MS)
    server.wait_for_line("registered again")
    for rank in ranks[:2]:
        rank.say()
    lost_at = time.monotonic()
    ranks[2].send(signal.SIGKILL)
    for rank in ranks[:2]:
        text = told(rank, lost_at)
        assert re.search(r"^ABORTED: rank 2 on \S+ was lost: server alpha lost its connection", text), text


def state_of_job(cluster: Cluster, name: str) -> str:
    return next(job["state"] for job in cluster.shoalctl("jobs")[0]["jobs"] if job["name"] == name)


def told(rank: Process, lost_at: float) -> str:
    line = rank.wait_for_line("^[A-Z_]+: ").string
    assert time.monotonic() - lost_at < BOUND_S, f"within the lease and a second\n{rank}"
    assert rank.wait() == 1
    return line
