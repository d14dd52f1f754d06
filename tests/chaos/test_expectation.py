"""Which failures docs/failover.md allows, and how long a group may stand still: on written histories of faults."""

import dataclasses
import math
import signal

import pytest

from chaos import promises
from chaos.expectation import Failure, judge, patience, ranks_named
from chaos.fault import Fault
from chaos.report import reason_of
from chaos.shape import Job, Shape
from chaos.world import ETCD_CANNOT_WRITE, Incident, World

JOB = Job("j", ("worker-0", "worker-1", "worker-2"))
OTHER = Job("o", ("worker-3",))
SHAPE = Shape(
    jobs=(JOB, OTHER), worker_nodes=4, servers=2, lease_ttl_ms=4000, leader_lease_ms=3000, op_timeout_ms=60_000
)
NOW = 1000.0


def world(*incidents: tuple[str, str, float, float] | tuple[str, str, float, float, str]) -> World:
    """Kind, target, how long ago it began and was mended (0: still open), peer."""
    made = World(SHAPE)
    for kind, target, began_ago, mended_ago, *peer in incidents:
        fault = Fault(kind, 0, began_ago - mended_ago, target, *peer)
        made.incidents.append(Incident(fault, NOW - began_ago, NOW - mended_ago if mended_ago else math.inf))
    return made


def failure(text: str, waited_s: float = 3.0, where: str = "op", rank: int = 0) -> Failure:
    return Failure("j", rank, where, text, waited_s, NOW, "0.0")


LOST_1 = "ABORTED: rank 1 on worker-1 was lost: its process ended"


def test_nothing_may_fail_when_nothing_is_wrong():
    for text in (LOST_1, "DEADLINE_EXCEEDED: waited for rank 1", "CANCELLED: x", "INTERNAL: x", "DATA_LOSS: x"):
        assert not judge(failure(text, waited_s=60), world()).allowed


def test_a_slow_link_may_hold_up_what_all_jobs_have_under_way_over_it():
    def bound_s(kind: str, target: str, amount: float) -> float:
        made = World(SHAPE)
        made.incidents.append(Incident(Fault(kind, 0, 30, target, amount=amount), NOW - 10))
        return patience(made, JOB, NOW, NOW - 50).bound_s

    impaired_s = bound_s("link-loss", "server-0", 0.1)
    assert bound_s("link-slow", "server-0", 1000.0) == impaired_s, "there is little time in that"
    # Half of four ranks' tensors (two servers), by 1.25 MB/s.
    under_way = 4 * JOB.group_slots * JOB.in_flight * JOB.most_bytes / 2
    assert bound_s("link-slow", "server-0", 1.0) == promises.works_again_s(SHAPE) + under_way * 8 / 1e6
    assert bound_s("link-slow", "worker-0", 1.0) == promises.works_again_s(SHAPE) + under_way / 2 * 8 / 1e6


def test_a_full_disk_takes_the_etcd_member_beside_it_and_control_works_with_the_other_two():
    one_full = world(("disk-full", "control-1", 5, 0))
    assert one_full.ends_of("etcd-1") == (True, ETCD_CANNOT_WRITE)
    for other in ("etcd-0", "scheduler-1", "server-1"):
        assert one_full.ends_of(other) == (False, set())
    assert one_full.works_for(JOB, one_full.open_at(NOW))
    two_full = world(("disk-full", "control-1", 5, 0), ("disk-full", "control-0", 5, 0))
    assert not two_full.works_for(JOB, two_full.open_at(NOW))
    assert world(("disk-full", "control-1", 5, 1)).ends_of("etcd-1") == (False, set()), "it was mended"


def test_a_killed_process_has_no_other_exit_code_than_its_kill():
    fault_open, codes = world(("etcd-kill", "etcd-1", 5, 0)).ends_of("etcd-1")
    assert fault_open and -signal.SIGKILL in codes and not codes & ETCD_CANNOT_WRITE


@pytest.mark.parametrize("kind", ["rank-kill", "rank-term"])
def test_f11_a_killed_rank_fails_its_job_and_must_be_named(kind: str):
    history = world((kind, "j/1", 2, 0))
    assert judge(failure(LOST_1), history).allowed
    wrong = judge(failure("ABORTED: rank 2 on worker-2 was lost"), history)
    assert not wrong.allowed and "names none" in wrong.why


def test_f11_a_killed_rank_of_another_job_is_no_excuse():
    assert not judge(failure(LOST_1), world(("rank-kill", "o/0", 2, 0))).allowed


def test_f11_a_rank_that_was_killed_long_ago_is_no_excuse():
    assert not judge(failure(LOST_1), world(("rank-kill", "j/1", 100, 90))).allowed


def test_f11_a_lost_rank_may_hear_that_its_membership_has_ended():
    ended = "FAILED_PRECONDITION: the scheduler at s:1 ended this worker's membership in job \"j\": rank 1 of job \"j\""
    history = world(("node-deaf", "worker-1", 6, 0))
    for where in ("group", "op"):
        assert judge(failure(ended, where=where, rank=1), history).allowed
    assert not judge(failure(ended, where="group", rank=0), history).allowed
    for other in ("speaks wire version 3, this server 4", "runs in a child that was forked"):
        assert not judge(failure(f"FAILED_PRECONDITION: rank 1 {other}", where="op", rank=1), history).allowed
    assert not judge(failure(ended, where="group", rank=1), world()).allowed
    assert not judge(failure("NOT_FOUND: rank 1 is lost", where="group", rank=1), history).allowed


def test_f3_a_rank_may_stand_still_for_a_quarter_of_the_lease():
    assert not judge(failure(LOST_1), world(("rank-stop", "j/1", 2, 1.1))).allowed
    assert judge(failure(LOST_1), world(("rank-stop", "j/1", 4, 1.1))).allowed


def test_f11_a_rank_that_nobody_hears_may_be_lost():
    assert judge(failure(LOST_1), world(("node-silent", "worker-1", 4, 0))).allowed
    assert judge(failure(LOST_1), world(("node-deaf", "worker-1", 4, 0))).allowed
    assert judge(failure(LOST_1), world(("node-mute", "worker-1", 4, 1))).allowed


@pytest.mark.parametrize("ends", [("worker-1", "server-0"), ("server-0", "worker-1")], ids=["out", "in"])
def test_f5_a_rank_that_reaches_another_server_may_not_be_lost(ends: tuple[str, str]):
    one_way = world(("path-one-way", ends[0], 20, 0, ends[1]))
    assert not judge(failure(LOST_1), one_way).allowed
    both_servers = world(("path-silent", "worker-1", 9, 0, "server-0"), ("path-silent", "worker-1", 9, 0, "server-1"))
    assert not judge(failure(LOST_1), both_servers).allowed, "the scheduler hears it: its ops end at their deadline"


def test_f2_f3_f4_whatever_happens_to_a_server_no_rank_may_be_lost():
    for kind in (
        "server-kill",
        "server-stop",
        "server-term",
        "server-drain",
        "node-silent",
        "node-pulled",
        "clock-jump",
    ):
        assert not judge(failure(LOST_1), world((kind, "server-0", 20, 0))).allowed, kind


def test_f12_f16_nor_when_a_scheduler_is_gone():
    assert not judge(
        failure(LOST_1), world(("scheduler-kill", "scheduler-0", 20, 0), ("etcd-stop", "etcd-1", 20, 0))
    ).allowed


def test_f12_a_scheduler_that_hears_nobody_takes_nobody_for_lost():
    silent = [("node-silent", name, 20, 0) for name in SHAPE.control_nodes]
    assert not judge(failure(LOST_1), world(*silent)).allowed
    paths = [("path-silent", "worker-1", 20, 0, name) for name in SHAPE.control_nodes]
    assert judge(failure(LOST_1), world(*paths)).allowed


def test_not_survived_a_connection_breaks_while_nobody_leads():
    nobody_leads = [("etcd-kill", "etcd-0", 9, 0), ("etcd-kill", "etcd-1", 9, 0)]
    assert judge(failure(LOST_1), world(*nobody_leads, ("path-silent", "worker-1", 8, 0, "server-0"))).allowed
    assert not judge(failure(LOST_1), world(*nobody_leads)).allowed
    long_enough_s = promises.last_resort_s(SHAPE) - promises.leader_replaced_s(SHAPE)
    for away_s, lost in ((long_enough_s - 0.5, False), (long_enough_s + 0.5, True)):
        soon_back = [("etcd-kill", etcd, 4 + away_s, 4) for etcd in ("etcd-0", "etcd-1")]
        made = world(*soon_back, ("path-silent", "worker-1", 8, 0, "server-0"))
        assert judge(failure(LOST_1), made).allowed == lost, away_s


def test_what_is_allowed_is_counted_by_its_reason():
    reasons = {
        "F11: ended": world(("rank-kill", "j/1", 2, 0)),
        "F11: stopped": world(("rank-stop", "j/1", 4, 1.1)),
        "F11: unheard": world(("node-silent", "worker-1", 4, 0)),
    }
    for reason, made in reasons.items():
        assert reason_of(judge(failure(LOST_1), made).why) == reason


def test_a_link_that_begins_to_work_badly_gives_no_time_beyond_its_own():
    def since(kind: str) -> float:
        return patience(world((kind, "worker-1", 2, 0)), JOB, NOW, NOW - 50).since

    assert since("link-delay") == NOW - 50
    assert since("node-silent") == NOW - 2


def test_a_rank_that_ended_after_the_first_failure_may_be_named_by_the_next():
    late = failure("ABORTED: rank 2 on worker-2 was lost: its process ended")
    history = world(("rank-kill", "j/1", 2, 0))
    assert not judge(late, history).allowed
    assert judge(late, history, {2: NOW - 0.1}).allowed


def test_a_deadline_may_pass_only_while_something_is_missing_and_names_it():
    text = "DEADLINE_EXCEEDED: waited 60 s for server-0"
    away = world(("node-silent", "server-0", 62, 0), ("server-kill", "server-1", 62, 0))
    assert judge(failure(text, waited_s=60), away).allowed
    assert not judge(failure("DEADLINE_EXCEEDED: waited 60 s for worker-7", waited_s=60), away).allowed
    early = judge(failure(text, waited_s=20), away)
    assert not early.allowed and "was not over" in early.why
    mended = world(("node-silent", "server-0", 62, 30), ("server-kill", "server-1", 62, 30))
    assert not judge(failure(text, waited_s=60), mended).allowed, "I10: for 30 s all was there"


TOLD = 'ABORTED: rank 1 on worker-1: all-reduce 5 of group "0.0" (9 float32) is not done after {} s: {}; all-reduce 4'


def test_f21_a_deadline_that_another_rank_tells_is_judged_by_the_time_that_it_waited():
    away = world(("node-silent", "server-0", 62, 0), ("server-kill", "server-1", 62, 0))
    assert judge(failure(TOLD.format("60.0", "no answer from server-0"), waited_s=3), away).allowed
    early = judge(failure(TOLD.format("20", "no answer from server-0")), away)
    assert not early.allowed and "F21" in early.why and "was not over" in early.why
    assert not judge(failure(TOLD.format("60", "no answer from server-7")), away).allowed, "names nobody at fault"
    mended = world(("node-silent", "server-0", 62, 30), ("server-kill", "server-1", 62, 30))
    assert not judge(failure(TOLD.format("60", "no answer from server-0")), mended).allowed, "I10"
    assert not judge(failure(TOLD.format("60", "no answer from server-0")), world()).allowed


def test_f21_a_rank_that_heard_nothing_of_its_group_is_named_and_so_is_the_scheduler():
    text = "ABORTED: rank 1 on worker-1: it gave its request for the group up: {}"
    text = text.format("no scheduler answered at control-0:7070 within 60.0 s (no answer)")
    assert judge(failure(text), world(("node-silent", "control-0", 70, 0), ("etcd-stop", "etcd-1", 70, 0))).allowed
    assert judge(failure(text), world(("path-silent", "worker-1", 70, 0, "control-0"))).allowed is False
    assert not judge(failure(text), world()).allowed


def test_joining_may_fail_while_no_scheduler_is_reached():
    text = "UNAVAILABLE: no scheduler answers"
    away = world(("node-silent", "worker-0", 30, 0))
    assert judge(failure(text, 30, "join"), away).allowed
    assert not judge(failure(text, 30, "join"), world()).allowed
    assert not judge(failure(text, 30, "op"), away).allowed


def test_a_small_server_may_refuse_and_is_named():
    small = Shape(jobs=(JOB,), worker_nodes=3, servers=2, server_options=(("server-1", ("--slot-memory", "2MiB")),))
    text = "RESOURCE_EXHAUSTED: server {} has 2 MiB of slot memory; the group needs 4 MiB"
    assert judge(failure(text.format("server-1")), World(small)).allowed
    assert not judge(failure(text.format("server-0")), World(small)).allowed
    told = 'rank 1 on worker-1: server {} refused group "0.0" (no-slot-memory): it needs 4194304 bytes'
    assert judge(failure("RESOURCE_EXHAUSTED: " + told.format("server-1")), World(small)).allowed
    assert not judge(failure("RESOURCE_EXHAUSTED: " + told.format("server-0")), World(small)).allowed
    assert not judge(failure("ABORTED: " + told.format("server-1")), World(small)).allowed, "the code is kept"


def test_ranks_are_found_in_messages():
    assert ranks_named("rank 12 on x: rank 3 was lost") == {3, 12}
    assert ranks_named("waiting for ranks 0, 2 and 5 of the group") == {0, 2, 5}
    assert ranks_named("shrank 3") == set()


# ---- I10


def test_i10_all_is_there_so_a_lease_and_a_second_is_the_bound():
    calm = patience(world(), JOB, NOW, NOW - 50)
    assert calm.bound_s == promises.works_again_s(SHAPE) == 5
    assert calm.overdue_s(NOW - 5.5, NOW, 0) == pytest.approx(0.5)
    assert calm.overdue_s(NOW - 5.5, NOW, 1.0) < 0, "this machine was late itself"
    assert calm.overdue_s(NOW - 4.5, NOW, 0) < 0


def test_i10_counts_from_the_last_healing():
    calm = patience(world(("node-silent", "server-0", 30, 2), ("node-silent", "server-1", 30, 3)), JOB, NOW, NOW - 50)
    assert calm.since == NOW - 2
    assert calm.overdue_s(NOW - 30, NOW, 0) < 0
    healed = patience(world(("node-silent", "server-0", 30, 6), ("node-silent", "server-1", 30, 7)), JOB, NOW, NOW - 50)
    assert healed.overdue_s(NOW - 30, NOW, 0) > 0


def test_i10_one_server_is_enough():
    one_left = patience(world(("node-silent", "server-0", 30, 0)), JOB, NOW, NOW - 50)
    assert math.isfinite(one_left.bound_s)
    none_left = patience(
        world(("node-silent", "server-0", 30, 0), ("server-stop", "server-1", 9, 0)), JOB, NOW, NOW - 50
    )
    assert math.isinf(none_left.bound_s)


def test_i10_two_of_three_control_nodes_are_enough_and_one_is_not():
    assert math.isfinite(patience(world(("node-pulled", "control-0", 60, 0)), JOB, NOW, NOW - 80).bound_s)
    two_gone = world(("node-pulled", "control-0", 60, 0), ("etcd-stop", "etcd-1", 60, 0))
    assert math.isinf(patience(two_gone, JOB, NOW, NOW - 80).bound_s)


def test_f16_a_lost_leader_takes_longer():
    recent = patience(world(("scheduler-kill", "scheduler-0", 3, 0)), JOB, NOW, NOW - 50)
    assert recent.bound_s == promises.leader_replaced_s(SHAPE) == 10
    both = patience(world(("node-silent", "control-0", 3, 0)), JOB, NOW, NOW - 50)
    assert both.bound_s == 13, "etcd's leader may be there as well"


# Two ranks on each of two nodes: groups of one node's ranks need no servers, that of all ranks does.
NODE_JOB = Job("n", ("worker-0", "worker-0", "worker-1", "worker-1"), node_reduce="auto")
ALONE_JOB = Job("n", ("worker-0", "worker-0"), node_reduce="auto")


def world_of(job: Job, *incidents: tuple[str, str, float, float]) -> World:
    made = world(*incidents)
    made.shape = Shape(jobs=(job,), worker_nodes=2, servers=2, op_timeout_ms=60_000)
    return made


NO_SERVERS = (("node-silent", "server-0", 70, 0), ("server-stop", "server-1", 70, 0))


def test_i10_a_group_on_one_node_needs_no_servers():
    history = world_of(NODE_JOB, *NO_SERVERS)
    assert math.isfinite(patience(history, NODE_JOB, NOW, NOW - 80, (0, 1)).bound_s)
    assert math.isfinite(patience(history, NODE_JOB, NOW, NOW - 80, (2, 3)).bound_s)
    assert math.isinf(patience(history, NODE_JOB, NOW, NOW - 80, (1, 2)).bound_s)
    assert math.isinf(patience(history, NODE_JOB, NOW, NOW - 80).bound_s)
    for job in (
        dataclasses.replace(NODE_JOB, node_reduce="off"),
        dataclasses.replace(NODE_JOB, network_only=True),
    ):
        assert math.isinf(patience(world_of(job, *NO_SERVERS), job, NOW, NOW - 80, (0, 1)).bound_s)


def test_i10_what_separates_other_ranks_of_the_job_does_not_concern_a_group():
    history = world_of(NODE_JOB, ("path-silent", "worker-1", 70, 0, "control-0"), ("node-silent", "control-1", 70, 0))
    assert math.isfinite(patience(history, NODE_JOB, NOW, NOW - 80, (0, 1)).bound_s)
    assert math.isinf(patience(history, NODE_JOB, NOW, NOW - 80, (2, 3)).bound_s)


def test_a_deadline_in_a_group_on_one_node_is_not_excused_by_servers():
    text = "DEADLINE_EXCEEDED: waited 60 s for server-0"
    history = world_of(NODE_JOB, *NO_SERVERS)
    of_all = Failure("n", 0, "op", text, 60, NOW, "0.0")
    assert judge(of_all, history).allowed
    assert not judge(dataclasses.replace(of_all, members=(0, 1)), history).allowed


def test_f11_a_rank_of_a_job_on_one_node_is_not_lost_for_want_of_servers():
    lost = Failure("n", 0, "op", "ABORTED: rank 1 on worker-0 was lost: it fell silent", 3, NOW, "0.0")
    nobody_leads = [("etcd-kill", etcd, 30, 0) for etcd in ("etcd-0", "etcd-1")]
    assert not judge(lost, world_of(ALONE_JOB, *NO_SERVERS, *nobody_leads)).allowed
    plain = dataclasses.replace(ALONE_JOB, node_reduce="off")
    assert not judge(lost, world_of(plain, *NO_SERVERS)).allowed
    assert judge(lost, world_of(plain, *NO_SERVERS, *nobody_leads)).allowed


def test_a_fault_of_another_jobs_node_concerns_nobody_else():
    history = world(("node-silent", "worker-3", 3, 0))
    assert patience(history, JOB, NOW, NOW - 50).since == NOW - 50
    assert math.isinf(patience(history, OTHER, NOW, NOW - 50).bound_s)


def test_a_stopped_rank_stops_its_job_alone():
    history = world(("rank-stop", "j/1", 3, 0))
    assert math.isinf(patience(history, JOB, NOW, NOW - 50).bound_s)
    assert math.isfinite(patience(history, OTHER, NOW, NOW - 50).bound_s)


def test_longest_stretch_joins_what_is_split_by_faults_that_do_not_matter():
    history = world(("rank-kill", "o/0", 20, 10), ("link-delay", "worker-0", 15, 14))
    assert history.longest_working(JOB, NOW - 40, NOW) == 40
    broken = world(("rank-stop", "j/0", 20, 10))
    assert broken.longest_working(JOB, NOW - 40, NOW) == 20
