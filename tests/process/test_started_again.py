"""F11: a job that is started again under its name does not wait for its own dead processes. Real processes."""

import re
import signal
import time

import pytest

from hosts.cluster import Cluster
from hosts.process import Process
from job_runs import digests, let_go_on, wait_for_line_of_all

LEASE_TTL_MS = 60_000  # a process that waits for it is seen
RANKS = 3
ROUNDS = 2


def start_job(cluster: Cluster, *options: str) -> tuple[list[Process], float]:
    """And how long it took until all ranks had joined."""
    started_at = time.monotonic()
    ranks = cluster.start_ranks(RANKS, "--rounds", str(ROUNDS), "--hold", *options)
    wait_for_line_of_all(ranks, "^joined$")
    return ranks, time.monotonic() - started_at


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_f11_a_job_whose_processes_ended_is_started_again_at_once(
    cluster: Cluster, number: signal.Signals, network: list[str]
):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    ranks, first_s = start_job(cluster, *network)
    wait_for_line_of_all(ranks, "^round 0 done$")
    for rank in ranks:
        rank.send(number)
    for rank in ranks:
        rank.wait()
    again, again_s = start_job(cluster, *network)
    print(f"joined after {first_s:.2f} s, and after {again_s:.2f} s when it was started again")
    assert again_s < first_s + 1, "the same, and less than a second"
    let_go_on(again, ROUNDS)
    assert len(digests(again)) == 1


def test_f11_a_process_too_many_is_refused_and_ends_nobody(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=3000)
    cluster.start_server("alpha")
    ranks, _ = start_job(cluster)
    rival = cluster.start_rank(1, RANKS)
    assert rival.wait() == 1
    assert rival.output.splitlines()[-1].startswith("ALREADY_EXISTS")
    let_go_on(ranks, ROUNDS)
    assert len(digests(ranks)) == 1


def test_f11_a_killed_rank_is_noticed_long_before_its_lease(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    ranks, _ = start_job(cluster)
    wait_for_line_of_all(ranks, "^round 0 done$")
    let_go_on(ranks[:2])
    ranks[2].send(signal.SIGKILL)
    killed_at = time.monotonic()
    for rank in ranks[:2]:
        line = rank.wait_for_line("^[A-Z_]+: ").string
        told_s = time.monotonic() - killed_at
        # From the scheduler, or from another rank that was told before.
        lost = r"ABORTED: (rank \d on \S+: )?rank 2 of the job on \S+ was lost: its process ended"
        assert re.match(lost, line), line
        print(f"told after {told_s:.2f} s")
        assert told_s < 3


def test_f11_a_job_that_was_ended_before_all_its_ranks_had_come_is_started_again_at_once(cluster: Cluster):
    """The first process of the next run takes the place that was free, beside those of processes that are dead."""
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    too_few = [cluster.start_rank(rank, RANKS) for rank in (1, 2)]
    wait_for_line_of_all(too_few, "^joined$")
    for rank in too_few:
        rank.send(signal.SIGKILL)
        rank.wait()
    ranks = []
    for number in range(RANKS):
        ranks.append(cluster.start_rank(number, RANKS, "--rounds", str(ROUNDS)))
        ranks[-1].wait_for_line("^joined$")
    assert len(digests(ranks)) == 1
    cluster.told("F11", "rank-replaced", r'^rank 1 of job "test" .*: its process ended')


def test_f11_a_job_that_was_ended_while_it_waited_for_servers_is_started_again_at_once(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    waiting = cluster.start_ranks(RANKS, "--min-servers", "2")
    cluster.wait_for_event("job-running", "test")
    for rank in waiting:
        rank.send(signal.SIGKILL)
    cluster.start_server("beta")
    ranks, joined_s = start_job(cluster, "--min-servers", "2")
    print(f"joined after {joined_s:.2f} s")
    assert joined_s < 10, "not the lease"
    let_go_on(ranks, ROUNDS)
    assert len(digests(ranks)) == 1
