"""An open job goes on with the ranks it has: they are killed, leave, come, and the others reduce on. Real processes."""

import pathlib
import signal
import sys
import time

import pytest

from hosts.cluster import LIBRARY, Cluster, sanitizer_environment
from hosts.process import TIME_FACTOR, Process

PROGRAM = pathlib.Path(__file__).with_name("open_rank_program.py")
LEASE_TTL_MS = 2000
# From the kill of a process to the error that its group's ops have on the other ranks: no lease.
TOLD_WITHIN_S = 1 * TIME_FACTOR

Ranks = dict[int, Process]


def start_open_rank(cluster: Cluster, *options: str) -> Process:
    command = [sys.executable, str(PROGRAM), "--library", str(LIBRARY), "--scheduler", cluster.scheduler_address]
    return cluster.start([*command, *options], sanitizer_environment())


def add_rank(cluster: Cluster, ranks: Ranks, *options: str) -> int:
    process = start_open_rank(cluster, *options)
    rank = int(process.wait_for_line(r"^joined as rank (\d+)$").group(1))
    ranks[rank] = process
    return rank


def reduce(ranks: Ranks, name: str) -> set[str]:
    """Of all of them, in a group of that name: the digests."""
    for process in ranks.values():
        process.say(f"reduce {name} {','.join(map(str, sorted(ranks)))}")
    return {process.wait_for_line(rf"^{name} done (\w+)$").group(1) for process in ranks.values()}


def only_job(cluster: Cluster) -> dict:
    (document,) = cluster.shoalctl("jobs")
    (job,) = document["jobs"]
    return job


def rosters(cluster: Cluster) -> list[str]:
    return [event["reason"] for event in cluster.events() if event["kind"] == "roster-changed"]


@pytest.fixture
def ranks(cluster: Cluster) -> Ranks:
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    return {}


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_the_others_go_on_without_a_killed_rank_and_with_one_that_comes(
    cluster: Cluster, ranks: Ranks, network: list[str]
):
    for identity in ("a", "b", "c"):
        add_rank(cluster, ranks, "--identity", identity, *network)
    assert sorted(ranks) == [0, 1, 2]
    assert [rank["identity"] for rank in only_job(cluster)["ranks"]] == ["a", "b", "c"]
    assert len(reduce(ranks, "first")) == 1
    victim = ranks.pop(2)
    for process in ranks.values():
        process.say("reduce first 0,1,2")  # under way, as rank 2 has no part in it
    time.sleep(0.2)
    killed_at = time.monotonic()
    victim.send(signal.SIGKILL)
    for process in ranks.values():
        process.wait_for_line(r"^first refused ABORTED: .*rank 2( of the job)? on \S+ was lost: ")
    assert time.monotonic() - killed_at < TOLD_WITHIN_S
    assert only_job(cluster)["state"] == "running"
    cluster.told("F22", "roster-changed", "rank 2 was lost; 2 ranks: 0")
    assert len(reduce(ranks, "second")) == 1
    assert add_rank(cluster, ranks, "--identity", "c", *network) == 3
    assert len(reduce(ranks, "third")) == 1
    for process in ranks.values():
        process.say("leave")
        assert process.wait() == 0
    assert only_job(cluster)["state"] == "ended"
    told = rosters(cluster)
    assert told[3].startswith("rank 2 was lost; 2 ranks: 0 (") and '3 ranks: 0 ("a"), 1 ("b"), 3 ("c")' in told[4]


def test_a_process_that_stood_still_is_told_and_may_come_again(cluster: Cluster, ranks: Ranks):
    for _ in range(2):
        add_rank(cluster, ranks)
    assert len(reduce(ranks, "first")) == 1
    ranks[1].send(signal.SIGSTOP)
    try:
        ranks[0].say("reduce first 0,1")
        ranks[0].wait_for_line("^first refused ABORTED: .*rank 1 ")
    finally:
        ranks[1].send(signal.SIGCONT)
    late = ranks.pop(1)
    late.say("reduce second 0,1")
    late.wait_for_line("^second refused (FAILED_PRECONDITION|ABORTED): ")
    assert add_rank(cluster, ranks) == 2
    assert len(reduce(ranks, "second")) == 1


def test_with_too_few_left_the_job_fails_by_name(cluster: Cluster, ranks: Ranks):
    for _ in range(3):
        add_rank(cluster, ranks, "--min-ranks", "2", "--network-only")
    assert len(reduce(ranks, "first")) == 1
    for victim, is_over in ((2, False), (1, True)):
        ranks.pop(victim).send(signal.SIGKILL)
        cluster.wait_until(
            lambda over=is_over: (only_job(cluster)["state"] == "failed") is over
            and int(only_job(cluster)["world_size"]) == len(ranks),
            "the job has lost the rank",
        )
    assert "1 rank: 0 left, and the job needs 2" in only_job(cluster)["failure"]
    ranks[0].say("reduce second 0")
    ranks[0].wait_for_line("^second refused ABORTED: .*the job needs 2")


def test_an_open_job_and_one_of_fixed_size_do_not_share_a_name(cluster: Cluster, ranks: Ranks):
    add_rank(cluster, ranks)
    fixed = cluster.start_rank(0, 2, "--job", "open")
    fixed.wait_for_line('^INVALID_ARGUMENT: .*job "open" is an open one')
    other = start_open_rank(cluster, "--min-ranks", "2")
    other.wait_for_line('^INVALID_ARGUMENT: .*open job "open" needs 1 ranks at least, but .* says 2')
