"""Which failures, rosters and times F22 to F24 allow an open job: on written histories of faults."""

import dataclasses
import math

import pytest

from chaos import promises
from chaos.expectation import Failure, patience
from chaos.fault import Fault
from chaos.open_expectation import Group, Member, healed_s, in_places, judge_open, may_be_lost, open_patience
from chaos.shape import Job, Shape
from chaos.world import Incident, World

JOB = Job("o", ("worker-0", "worker-1", "worker-2"), min_ranks=1)
FIXED = Job("f", ("worker-0", "worker-1"))
SHAPE = Shape(
    jobs=(JOB, FIXED), worker_nodes=3, servers=2, lease_ttl_ms=5000, leader_lease_ms=3000, op_timeout_ms=60_000
)
NOW = 1000.0
# The rank with place 1 has joined a second time.
NUMBERS = {0: 0, 1: 1, 2: 2, 3: 1}
GROUP = Group("1.0.7", 0, (Member(0, 0, 100.0), Member(2, 2, 100.0), Member(1, 3, NOW - 10)), NOW - 5)


def world(*incidents: tuple[str, str, float, float]) -> World:
    """Kind, target, how long ago it began and was mended (0: still open)."""
    made = World(SHAPE)
    for kind, target, began_ago, mended_ago, *peer in incidents:
        fault = Fault(kind, 0, began_ago - mended_ago, target, *peer)
        made.incidents.append(Incident(fault, NOW - began_ago, NOW - mended_ago if mended_ago else math.inf))
    return made


KILLED = ("open-rank-kill", "o/1", 3, 0)
STOPPED = ("open-rank-stop", "o/1", 8, 1)
LOST = 'ABORTED: rank 3 of job "o" on node worker-1 was lost: its process ended'
LEFT = LOST + "; it has {} ranks left, and needs {}"
FENCED = "FAILED_PRECONDITION: the scheduler at s:1 ended this worker's membership in job \"o\": rank 3 of job \"o\""


def judge(text: str, history: World, where: str = "op", place: int = 0, waited_s: float = 1.0, group=GROUP):
    name, places = (group.name, group.places) if group else ("", ())
    failure = Failure("o", place, where, text, waited_s, NOW, name, places)
    lost = may_be_lost(history, JOB, group, NOW) if group else {}
    return judge_open(failure, history, group, lost, NUMBERS)


def lost(*incidents: tuple, gave_up: frozenset[int] = frozenset()) -> set[int]:
    return set(may_be_lost(world(*incidents), JOB, GROUP, NOW, gave_up))


def test_f23_nobody_may_be_missing_when_nothing_is_wrong():
    assert lost() == set()


@pytest.mark.parametrize("kind", ["open-rank-kill", "open-rank-leave"])
def test_f23_f24_a_rank_that_was_killed_or_has_left_may_be_missing(kind: str):
    assert lost((kind, "o/1", 3, 0)) == {1}
    assert lost((kind, "f/1", 3, 0)) == set()


def test_what_happened_before_a_rank_joined_is_no_excuse_for_the_process_that_is_there_now():
    assert lost(("open-rank-kill", "o/1", 12, 11)) == set()
    assert lost(("open-rank-kill", "o/1", 12, 9)) == {1}
    assert lost(("open-rank-kill", "o/2", 12, 11)) == {2}
    assert lost(("open-rank-kill", "o/2", 30, 20)) == set(), "and long before the group was made"


def test_f3_f23_a_rank_that_stood_still_for_more_than_a_quarter_of_the_lease_may_be_missing():
    assert lost(STOPPED) == {1}
    assert lost(("open-rank-stop", "o/1", 2, 1.1)) == set()


def test_f23_a_rank_that_nobody_hears_may_be_missing_and_so_may_one_that_gave_up():
    assert lost(("node-silent", "worker-2", 4, 0)) == {2}
    assert lost(gave_up=frozenset({2})) == {2}


def test_f23_an_op_may_not_fail_because_another_rank_was_lost():
    for history in (world(), world(KILLED), world(STOPPED)):
        for where in ("op", "submit"):
            verdict = judge(LOST, history, where)
            assert not verdict.allowed and "F23" in verdict.why


def test_f23_an_op_fails_where_a_server_hears_no_scheduler_until_it_gives_the_lost_rank_up():
    given_up = 'ABORTED: rank 2 (rank 3 of the job) on worker-1 was lost: server server-0 lost its connection: it ended'
    silent = [("node-silent", "control-1", 20, 9), ("node-deaf", "control-0", 14, 0)]
    verdict = judge(given_up, world(KILLED, *silent), waited_s=14.0)
    assert verdict.allowed and verdict.why.startswith("F23: not survived: server-0")
    assert not judge(given_up, world(KILLED, silent[0]), waited_s=14.0).allowed, "two of three control nodes work"
    assert not judge(given_up, world(*silent), waited_s=14.0).allowed, "nobody was lost"
    soon_back = [("node-silent", "control-1", 20, 12), ("node-deaf", "control-0", 14, 0)]
    assert not judge(given_up, world(KILLED, *soon_back), waited_s=14.0).allowed, "for two seconds alone"


def test_f23_an_op_fails_where_too_few_are_left_and_no_more_than_may_be_lost_are_missing():
    assert judge(LEFT.format(2, 3), world(KILLED)).allowed
    assert not judge(LEFT.format(2, 3), world()).allowed
    assert not judge(LEFT.format(1, 2), world(KILLED)).allowed, "only one may be lost"
    assert judge(LEFT.format(1, 2), world(KILLED, ("open-rank-leave", "o/2", 3, 0))).allowed
    assert not judge(LEFT.format(2, 2), world(KILLED)).allowed, "that is enough"


def test_f23_a_rank_that_is_lost_and_lives_is_kept_out():
    kept_out = 'ABORTED: rank 2 (rank 3 of the job) on worker-1 was taken for lost; the others go on'
    assert judge(kept_out, world(STOPPED), place=1).allowed
    assert not judge(kept_out, world(), place=1).allowed
    assert not judge(kept_out, world(STOPPED), place=0).allowed, "another one was"
    assert judge(kept_out.replace("ABORTED", "FAILED_PRECONDITION"), world(STOPPED), place=1).allowed
    assert judge(FENCED, world(STOPPED), "group", place=1).allowed
    assert not judge(FENCED.replace("rank 3", "rank 2"), world(STOPPED), "group", place=1).allowed, "it names another"
    assert not judge(FENCED, world(), "group", place=1).allowed
    assert not judge("FAILED_PRECONDITION: rank 3 speaks wire version 3", world(STOPPED), "group", place=1).allowed


def test_f22_a_group_with_a_lost_rank_is_refused_and_names_it():
    refused = 'ABORTED: rank {} of job "o" on node x is lost (its process ended); ask for the group without it'
    assert judge(refused.format(3), world(KILLED), "group").allowed
    assert not judge(refused.format(3), world(), "group").allowed
    assert not judge(refused.format(2), world(KILLED), "group").allowed
    assert not judge(refused.format(9), world(KILLED), "group").allowed, "nobody has had that number"


def test_no_other_failure_is_allowed():
    for code in ("CANCELLED", "INTERNAL", "DATA_LOSS", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "NOT_FOUND"):
        for where in ("op", "group", "join"):
            group = None if where == "join" else GROUP
            assert not judge(f"{code}: rank 3", world(KILLED), where, group=group).allowed
            assert not judge(f"{code}: rank 3", world(STOPPED), where, place=1, group=group).allowed
    assert not judge(LOST, world(KILLED), "join", group=None).allowed


def test_a_deadline_may_pass_only_while_something_is_missing():
    text = "DEADLINE_EXCEEDED: waited 60 s for server-0"
    away = (("node-silent", "server-0", 62, 0), ("server-kill", "server-1", 62, 0))
    assert judge(text, world(*away), waited_s=60).allowed
    assert not judge(text, world(("open-rank-stop", "o/1", 62, 0)), waited_s=60).allowed, "the others go on"
    assert not judge(text, world(*away), waited_s=20).allowed
    assert judge(text, world(("node-silent", "worker-1", 62, 0)), place=1, waited_s=60).allowed, "it is lost itself"
    assert not judge(text, world(("node-silent", "worker-1", 62, 0)), place=0, waited_s=60).allowed


def test_joining_may_fail_while_no_scheduler_is_reached():
    text = "UNAVAILABLE: no scheduler answers"
    away = world(("node-silent", "worker-0", 30, 0))
    assert judge(text, away, "join", waited_s=30, group=None).allowed
    assert not judge(text, world(), "join", waited_s=30, group=None).allowed
    assert not judge(text, away, "join", place=1, waited_s=30, group=None).allowed, "another node was cut off"


def test_numbers_become_places():
    text = 'rank 3 (of job "o"), ranks 0, 2 and 3, rank 1 (rank 3 of the job) on worker-1, rank 8; it has 2 ranks left'
    places = in_places(text, {0: 5, 2: 6, 3: 1})
    expected = 'rank 1 (of job "o"), ranks 5, 6 and 1, rank 1 on worker-1, rank nobody\'s 8; it has 2 ranks left'
    assert places == expected


# ---- how long a group may stand still


def bound_s(*incidents: tuple, unknown_ago: float = math.inf) -> float:
    return open_patience(world(*incidents), JOB, NOW, NOW - 50, GROUP.places, NOW - unknown_ago).bound_s


def test_f22_where_only_a_process_has_ended_two_seconds_are_enough():
    assert bound_s(KILLED) == promises.ENDED_PROCESS_TOLD_S == 2
    assert bound_s(("open-rank-kill", "o/1", 3, 2)) == 2, "also when it is there again"
    assert bound_s(KILLED, ("open-rank-kill", "o/2", 1, 0)) == 2


def test_f23_with_anything_else_it_takes_a_lease_and_the_move():
    longer = promises.gone_on_without_s(SHAPE)
    assert bound_s(KILLED, unknown_ago=1) == longer, "no server may have seen its connections end"
    assert bound_s(KILLED, unknown_ago=healed_s(SHAPE) + 1) == 2
    assert bound_s(("open-rank-kill", "o/1", 3, 2), unknown_ago=1) == longer
    assert bound_s(("open-rank-stop", "o/1", 3, 0)) == longer
    assert bound_s(("open-rank-stop", "o/1", 9, 1)) == longer
    assert bound_s(("node-silent", "worker-1", 3, 0)) == longer
    for kind, target in (("server-kill", "server-0"), ("node-silent", "worker-2"), ("open-rank-leave", "o/2")):
        assert bound_s(KILLED, (kind, target, 5, 4)) >= longer, kind
    assert bound_s() == promises.works_again_s(SHAPE)


def test_an_open_job_goes_on_without_a_rank_that_stands_still_or_is_not_heard_and_one_of_fixed_size_does_not():
    history = world(("open-rank-stop", "o/1", 3, 0))
    assert math.isfinite(patience(history, JOB, NOW, NOW - 50).bound_s)
    assert math.isfinite(patience(history, FIXED, NOW, NOW - 50).bound_s)
    assert math.isinf(patience(world(("rank-stop", "f/1", 3, 0)), FIXED, NOW, NOW - 50).bound_s)
    cut_off = world(("node-silent", "worker-1", 3, 0))
    assert math.isfinite(patience(cut_off, JOB, NOW, NOW - 50).bound_s)
    assert math.isinf(patience(cut_off, FIXED, NOW, NOW - 50).bound_s)


def test_an_open_job_needs_a_scheduler_a_server_and_a_rank():
    for needs in (
        [("etcd-kill", "etcd-0", 9, 0), ("etcd-kill", "etcd-1", 9, 0)],
        [("server-kill", "server-0", 9, 0), ("server-stop", "server-1", 9, 0)],
        [("open-rank-stop", f"o/{place}", 9, 0) for place in JOB.ranks],
        # That rank is heard by the schedulers, so it is not lost, and reaches no server.
        [("path-silent", "worker-1", 9, 0, "server-0"), ("path-silent", "worker-1", 9, 0, "server-1")],
    ):
        assert math.isinf(bound_s(*needs)), needs
    plain = dataclasses.replace(JOB, min_ranks=0)
    assert not plain.is_open and JOB.is_open
