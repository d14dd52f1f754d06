"""An open job goes on with the ranks it has: they are killed, leave, come, and the others reduce on. Real processes."""

import random
import re
import signal
import time

import pytest

from hosts.cluster import Cluster
from hosts.process import TIME_FACTOR
from open_rank_runs import Ranks, go_on, only_job, ops_of, reduce, start_open_rank

LEASE_TTL_MS = 2000
# From the kill of a process to the error that its group's ops have on the other ranks: no lease.
TOLD_WITHIN_S = 1 * TIME_FACTOR

OPS = 60  # in groups that go on


def add_rank(cluster: Cluster, ranks: Ranks, *options: str) -> int:
    process = start_open_rank(cluster, *options)
    rank = int(process.wait_for_line(r"^joined as rank (\d+)$").group(1))
    ranks[rank] = process
    return rank


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
            lambda over=is_over: (
                (only_job(cluster)["state"] == "failed") is over and int(only_job(cluster)["world_size"]) == len(ranks)
            ),
            "the job has lost the rank",
        )
    assert "1 rank: 0 left, and the job needs 2" in only_job(cluster)["failure"]
    ranks[0].say("reduce second 0")
    ranks[0].wait_for_line("^second refused ABORTED: .*the job needs 2")


def assert_written_down(cluster: Cluster, ops: list[re.Match]) -> None:
    """The scheduler's events say whose contributions the results of each op have (docs/numerics.md)."""
    expected, told = [], 4
    for number, op in enumerate(ops, start=1):
        least, most = int(op.group(2)), int(op.group(3))
        if least < most:
            some = f"elements 0 to \\d+ have the contributions of ({least}|{most}) ranks, "
            expected.append(f"op {number} of epoch \\d+: {some}")
        elif most != told:
            all_of_them = f"all elements have the contributions of {most}"
            expected.append(f"op {number} of epoch \\d+ and those after it: {all_of_them}")
        told = most if least == most else 0

    def events_of_all() -> list[str] | None:
        found = [event["reason"] for event in cluster.events() if event["kind"] == "op-lacks-ranks"]
        return found if len(found) >= len(expected) else None

    events = cluster.wait_until(events_of_all, "an event of each such op")
    assert len(events) == len(expected), (events, expected)
    assert all(re.match(pattern, event) for pattern, event in zip(expected, events)), (events, expected)


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
@pytest.mark.parametrize("scale", [0, 1], ids=["sum of those that are left", "scaled to all"])
def test_an_op_ends_with_the_ranks_that_are_left(cluster: Cluster, ranks: Ranks, network: list[str], scale: int):
    cluster.start_server("beta")
    for _ in range(4):
        add_rank(cluster, ranks, *network)
    go_on(ranks, "group", min_ranks=2, ops=OPS, scale=scale)
    ranks[0].wait_for_line("^group op 3 ")
    left = dict(ranks)
    sums = [10.0]  # of 1, 2, 3 and 4
    for victim in (1, 3):
        time.sleep(random.uniform(0, 0.1))
        left.pop(victim).send(signal.SIGKILL)
        seen = len(ops_of(left[0], "group"))
        left[0].wait_for_line(f"^group op {seen + 3} ")
        mean = sum(rank + 1.0 for rank in left) / len(left)
        sums.append(mean * (len(ranks) if scale else len(left)))
    (group,) = only_job(cluster)["groups"]
    assert (group["ranks"], group["lost_ranks"], group["state"]) == ([0, 1, 2, 3], [1, 3], "open")
    for process in left.values():
        process.wait_for_line("^group over$")
    told = {rank: ops_of(process, "group") for rank, process in left.items()}
    assert [len(ops) for ops in told.values()] == [OPS] * len(left)
    for of_ranks in zip(*told.values()):
        assert len({op.groups() for op in of_ranks}) == 1, "all have the same bits"
        least, most, values = int(of_ranks[0].group(2)), int(of_ranks[0].group(3)), of_ranks[0].group(4).split(",")
        expected = sums[4 - most : 5 - least]
        fits = [any(float(value) == pytest.approx(each) for each in expected) for value in values]
        assert all(fits), (values, expected)
    assert [ops[-1].group(2) for ops in told.values()] == ["2"] * len(left)
    cluster.told("F23", "group-moved", "3 of its 4 ranks: rank 1 of job .* was lost")
    cluster.told("F23", "group-moved", "2 of its 4 ranks: rank 3 of job .* was lost")
    assert_written_down(cluster, told[0])


def test_a_group_that_goes_on_ends_by_name_with_too_few(cluster: Cluster, ranks: Ranks):
    for _ in range(3):
        add_rank(cluster, ranks)
    go_on(ranks, "group", min_ranks=3, ops=10_000, scale=0)
    ranks[0].wait_for_line("^group op 2 ")
    ranks.pop(2).send(signal.SIGKILL)
    for process in ranks.values():
        process.wait_for_line("^group refused ABORTED: .*rank 2 of job .* was lost.* it has 2 ranks left, and needs 3")
    assert len(reduce(ranks, "second")) == 1  # the job goes on


def test_a_rank_that_was_taken_for_lost_is_kept_out(cluster: Cluster, ranks: Ranks):
    for _ in range(3):
        add_rank(cluster, ranks)
    go_on(ranks, "group", min_ranks=1, ops=OPS, scale=0)
    ranks[0].wait_for_line("^group op 2 ")
    ranks[2].send(signal.SIGSTOP)
    try:
        for rank in (0, 1):
            ranks[rank].wait_for_line("^group over$")
    finally:
        ranks[2].send(signal.SIGCONT)
    ranks[2].wait_for_line("^group refused (FAILED_PRECONDITION|ABORTED): ")
    assert ops_of(ranks[0], "group")[-1].group(2) == "2"
    assert {op.group(5) for op in ops_of(ranks[0], "group")} == {op.group(5) for op in ops_of(ranks[1], "group")}


def test_a_rank_that_gives_up_counts_as_lost(cluster: Cluster, ranks: Ranks):
    for _ in range(3):
        add_rank(cluster, ranks)
    for rank, process in ranks.items():
        process.say(f"go on group 0,1,2 1 {3 if rank == 2 else OPS} 0")
    ranks[2].wait_for_line("^group over$")
    ranks.pop(2).say("give up its disk is full")
    for process in ranks.values():
        process.wait_for_line("^group over$")
        assert ops_of(process, "group")[-1].group(2) == "2"
    assert any("its disk is full" in event["reason"] for event in cluster.events() if event["kind"] == "rank-lost")
    assert len(reduce(ranks, "second")) == 1
    ranks[0].say("reduce second 0,1")
    time.sleep(0.1)
    ranks.pop(1).say("give up its disk is full")
    ranks[0].wait_for_line("^second refused ABORTED: .*rank 1 .*its disk is full")


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_an_op_that_a_rank_left_before_ends_at_once(cluster: Cluster, ranks: Ranks, network: list[str]):
    for _ in range(3):
        add_rank(cluster, ranks, *network)
    assert len(reduce(ranks, "first")) == 1
    ranks[0].say("reduce first 0,1,2")
    time.sleep(0.2)  # it has pushed when rank 2 leaves, and rank 1 pushes later
    ranks.pop(2).say("leave")
    left_at = time.monotonic()
    ranks[0].wait_for_line("^first refused ABORTED: .*rank 2 on .* has left the group, and does not call op 2")
    ranks[1].say("reduce first 0,1,2")
    ranks[1].wait_for_line("^first refused ABORTED: .*rank 2 on .* has left the group")
    assert time.monotonic() - left_at < TOLD_WITHIN_S
    cluster.told("F24", "group-failed", "rank 2 on .* has left the group, and does not call op 2")
    assert len(reduce(ranks, "second")) == 1


def test_a_group_that_goes_on_does_so_without_ranks_that_leave(cluster: Cluster, ranks: Ranks):
    cluster.start_server("beta")
    for _ in range(4):
        add_rank(cluster, ranks)
    calls = {0: OPS, 1: 3, 2: OPS, 3: 10}
    for rank, process in ranks.items():
        process.say(f"go on group 0,1,2,3 2 {calls[rank]} 0")
    for rank in (1, 3):
        ranks[rank].wait_for_line("^group over$")
        ranks.pop(rank).say("leave")
    for process in ranks.values():
        process.wait_for_line("^group over$")
    ops = ops_of(ranks[0], "group")
    assert {op.groups() for op in ops} == {op.groups() for op in ops_of(ranks[2], "group")}
    by_calls = [sum(count > number for count in calls.values()) for number in range(OPS)]
    assert [(int(op.group(2)), int(op.group(3))) for op in ops] == [(count, count) for count in by_calls]
    cluster.told("F24", "group-moved", "3 of its 4 ranks: rank 1 of job .* has closed it, and others go on")
    # The last one has no others to reduce with, which is told.
    ranks.pop(2).say("leave")
    ranks[0].say("reduce group 0,1,2,3")
    ranks[0].wait_for_line("^group refused ABORTED: .*rank 2 .*it has 1 ranks left, and needs 2")


def test_an_open_job_and_one_of_fixed_size_do_not_share_a_name(cluster: Cluster, ranks: Ranks):
    add_rank(cluster, ranks)
    fixed = cluster.start_rank(0, 2, "--job", "open")
    fixed.wait_for_line('^INVALID_ARGUMENT: .*job "open" is an open one')
    other = start_open_rank(cluster, "--min-ranks", "2")
    other.wait_for_line('^INVALID_ARGUMENT: .*open job "open" needs 1 ranks at least, but .* says 2')
