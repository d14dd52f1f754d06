"""What the watcher of an open job makes of what its ranks say and how they end: real processes, in place of ranks."""

import json
import math
import pathlib
import re
import signal
import sys
import time
import types
from collections.abc import Iterator

import pytest
from chaos.chaos_cluster import Running
from chaos.fault import Fault
from chaos.findings import (
    ALLOWED, FENCED, MIXED_OPS, OPEN_RANKS_DIED, OPEN_RANKS_LEFT, REJOINED, SMALLER_OPS, Findings,
)  # fmt: skip
from chaos.gathering import LATE_S
from chaos.open_job_watch import COMES_S, JUDGED_AFTER_S, OpenJobWatch
from chaos.progress import Progress
from chaos.promises import ENDED_PROCESS_TOLD_S, works_again_s
from chaos.shape import Job, Shape
from chaos.starvation import Starvation
from chaos.strike import Strike
from chaos.world import Incident, World
from hosts.process import Process

JOB = Job("o", ("worker-0", "worker-1", "worker-2"), group_slots=1, min_ranks=1)
# It says what it is told to, one line for each line, and ends as it is told.
PARROT = """
import os, sys
for line in sys.stdin:
    if line.startswith("exit"):
        os._exit(int(line.split()[1]))
    if '"what"' in line:  # no word of the watcher
        print(line, end="", flush=True)
"""


class Watched:
    def __init__(self, folder: pathlib.Path):
        self.folder, self.findings = folder, Findings()
        self.running: dict[str, Running] = {}
        self.started: list[int] = []
        self.joins = 0
        for place in JOB.ranks:
            self.start_rank(JOB, place)
        cluster = types.SimpleNamespace(
            seed=1,
            incarnations={JOB.name: 1},
            stopped=set(),
            running=self.running,
            progress_of=lambda job, place: Progress(folder / str(place)),
            start_rank=self.start_rank,
            signal=lambda name, number: self.running[name].process.send(number),
            record_sockets=lambda job: None,
        )
        self.world = World(Shape(jobs=(JOB,), worker_nodes=3))
        self.watch = OpenJobWatch(cluster, self.world, JOB, self.findings, Starvation())
        self.now = time.monotonic()

    def start_rank(self, job: Job, place: int) -> None:
        """As the cluster does; what the process before it said is left with its watcher."""
        (self.folder / str(place)).unlink(missing_ok=True)
        self.running[job.rank_name(place)] = Running(
            job.rank_name(place), Process([sys.executable, "-c", PARROT]), time.monotonic()
        )
        self.started.append(place)

    def process(self, place: int) -> Process:
        return self.running[JOB.rank_name(place)].process

    def say(self, place: int, what: str, **fields) -> None:
        line = json.dumps({"what": what, **fields})
        before = len(self.process(place).lines_after(0))
        self.process(place).say(line)
        self.process(place).wait_for_line(f"^{re.escape(line)}$", after=before)

    def join(self, *places: int) -> None:
        for place in places:
            self.say(place, "joined", number=self.joins, after_s=0.1)
            self.say(place, "ready", slot=0)
            self.joins += 1
        self.look()

    def look(self, later_s: float = 0.0) -> None:
        self.now += later_s
        self.watch.look(self.now, 0.0, 0.0)

    def fault(self, kind: str, place: int, ago_s: float = 0.1) -> None:
        name = JOB.rank_name(place)
        self.world.incidents.append(Incident(Fault(kind, 0, 0.1, name), self.now - ago_s, math.inf))

    def kill(self, place: int) -> None:
        self.process(place).send(signal.SIGKILL)
        self.process(place).wait()

    def kinds(self) -> list[str]:
        return [violation.kind for violation in self.findings.violations]

    @property
    def group(self) -> str:
        return list(self.watch.groups)[-1]

    def end(self) -> None:
        for running in self.running.values():
            running.process.end_group()


@pytest.fixture
def unjoined(tmp_path: pathlib.Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.end()


@pytest.fixture
def watched(unjoined: Watched) -> Watched:
    unjoined.join(0, 1, 2)
    return unjoined


def test_the_first_group_has_all_ranks(unjoined: Watched):
    unjoined.join(0, 1)
    assert not unjoined.watch.groups
    unjoined.join(2)
    assert [group.places for group in unjoined.watch.groups.values()] == [(0, 1, 2)]


def test_a_group_is_made_of_those_that_joined_with_the_numbers_that_they_have(watched: Watched):
    [group] = watched.watch.groups.values()
    assert [(member.place, member.number) for member in group.members] == [(0, 0), (1, 1), (2, 2)]
    for place in (0, 1):
        watched.say(place, "ready", slot=0)
    watched.say(2, "fenced")
    watched.say(2, "joined", number=7, after_s=0.1)
    watched.say(2, "ready", slot=0)
    watched.look()
    members = watched.watch.groups[watched.group].members
    assert [(member.place, member.number) for member in members] == [(0, 0), (1, 1), (2, 7)]
    counts = watched.findings.counts
    assert (counts[FENCED], counts[REJOINED]) == (1, 1) and watched.kinds() == []


def smaller(watched: Watched, *chunks: list[list[int]], place: int = 0) -> None:
    watched.say(place, "smaller", slot=0, group=watched.group, op=4, chunks=list(chunks), took_s=0.3)
    watched.look()
    watched.look(JUDGED_AFTER_S + 0.1)


def test_f23_an_op_without_a_rank_that_was_not_lost_is_a_violation(watched: Watched):
    smaller(watched, [[2]])
    assert watched.kinds() == ["roster"] and "without [[(2,)]]" in watched.findings.violations[0].text


def test_f23_an_op_without_a_rank_that_was_killed_is_none(watched: Watched):
    watched.fault("open-rank-kill", 2)
    smaller(watched, [[]], [[2], [1]])
    assert watched.kinds() == []
    smaller(watched, [[]], [[2]], place=1)
    assert (watched.findings.counts[SMALLER_OPS], watched.findings.counts[MIXED_OPS]) == (1, 1), "it is one op"
    assert watched.findings.longest_after_kill_s == 0.3


def test_f23_all_ranks_that_have_done_a_groups_ops_have_the_same_bits(watched: Watched):
    watched.say(0, "closed", slot=0, group=watched.group, digest="ab")
    watched.say(1, "closed", slot=0, group=watched.group, digest="ab")
    watched.look()
    assert watched.kinds() == []
    watched.say(2, "closed", slot=0, group=watched.group, digest="ac")
    watched.look()
    assert watched.kinds() == ["ranks differ"]


LOST = 'ABORTED: rank 2 of job "o" on node worker-2 was lost: its process ended'


def fail(watched: Watched, text: str, where: str = "op", place: int = 0) -> None:
    watched.say(place, "failed", where=where, slot=0, group=watched.group, text=text, waited_s=1.0)
    watched.look()


def test_f23_an_op_that_fails_because_another_rank_was_lost_is_a_violation(watched: Watched):
    watched.fault("open-rank-kill", 2)
    fail(watched, LOST)
    assert watched.kinds() == ["failed op"] and "F23" in watched.findings.violations[0].text


def test_f22_a_group_that_is_refused_because_a_rank_was_lost_is_none(watched: Watched):
    watched.fault("open-rank-kill", 2)
    fail(watched, LOST, "group")
    assert watched.kinds() == [] and watched.findings.counts[ALLOWED] == 1
    fail(watched, LOST.replace("rank 2", "rank 1"), "group", place=1)
    assert watched.kinds() == ["failed op"]


def test_what_fails_long_after_a_violation_is_another_one(watched: Watched):
    fail(watched, LOST)
    fail(watched, LOST, place=1)
    assert watched.kinds() == ["failed op"], "it may follow from the first one"
    watched.look(60)
    fail(watched, LOST, place=2)
    assert watched.kinds().count("failed op") == 2


def test_a_rank_that_gave_up_may_be_missing_in_that_group(watched: Watched):
    watched.fault("open-rank-stop", 2, ago_s=0.0)
    watched.look(5)
    fail(watched, "ABORTED: rank 2 on worker-2 was taken for lost", place=2)
    watched.world.incidents.clear()
    smaller(watched, [[2]])
    assert watched.kinds() == []


def test_deaths_and_leaves_are_counted(watched: Watched):
    watched.fault("open-rank-stop", 2, ago_s=0.0)  # of the same process, long before that
    watched.look(5)
    watched.fault("open-rank-kill", 2)
    watched.kill(2)
    watched.fault("open-rank-leave", 1)
    watched.say(1, "left")
    watched.process(1).say("exit 0")
    watched.process(1).wait()
    watched.look()
    counts = watched.findings.counts
    assert (counts[OPEN_RANKS_DIED], counts[OPEN_RANKS_LEFT]) == (1, 1)
    assert watched.kinds() == [] and watched.started == [0, 1, 2], "their faults start them again"
    watched.say(0, "ready", slot=0)
    watched.look()
    assert [member.place for member in watched.watch.groups[watched.group].members] == [0]
    watched.start_rank(JOB, 2)
    watched.look()
    watched.join(2)
    assert counts[REJOINED] == 1


def test_what_a_rank_did_counts_also_when_another_process_is_there(watched: Watched):
    doing(watched, "waits for an op", 2)
    watched.fault("open-rank-kill", 2)
    watched.kill(2)
    watched.start_rank(JOB, 2)
    watched.look()
    watched.look()
    assert watched.watch.work_done()["ops"] == 1
    doing(watched, "waits for an op", 2)
    assert watched.watch.work_done()["ops"] == 2 and watched.kinds() == []


def test_a_process_that_has_come_again_is_in_no_group_before_it_is_ready(watched: Watched):
    for place in (1, 2):
        watched.say(place, "ready", slot=0)
    watched.look()
    watched.fault("open-rank-kill", 2)
    watched.kill(2)
    watched.start_rank(JOB, 2)
    watched.look()
    watched.say(2, "joined", number=3, after_s=0.1)
    watched.look()
    watched.say(0, "ready", slot=0)
    watched.look()
    assert len(watched.watch.groups) == 1
    watched.say(2, "ready", slot=0)
    watched.look()
    assert watched.watch.groups[watched.group].places == (0, 1, 2)


@pytest.mark.parametrize(("kind", "number"), [("open-rank-kill", signal.SIGKILL), ("open-rank-leave", signal.SIGTERM)])
def test_a_fault_ends_a_rank_and_starts_it_again(watched: Watched, kind: str, number: int):
    cluster = watched.watch.cluster
    cluster.is_up = lambda name: watched.running[name].process.running()
    cluster.start_open_rank = lambda name: watched.start_rank(JOB, int(name.split("/")[1]))
    cluster.links = None
    strike, other = (Strike(cluster, Fault(each, 0, 0.1, "o/1")) for each in (kind, "open-rank-kill"))
    assert strike.begin()
    assert watched.process(1).wait() == -number
    strike.mend()
    assert not strike.done(), "it is only being started"
    assert watched.started == [0, 1, 2, 1] and strike.done()
    other.mend()
    assert other.done() and watched.started == [0, 1, 2, 1], "it was done to the process before this one"


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_rank_that_ends_without_a_word_has_crashed_and_is_started_again(watched: Watched, code: int):
    watched.process(1).say(f"exit {code}")
    watched.process(1).wait()
    watched.look()
    assert watched.kinds() == ["crash"] and watched.started == [0, 1, 2, 1]


def test_a_rank_that_is_killed_by_nobody_has_crashed(watched: Watched):
    watched.fault("open-rank-kill", 0)
    watched.kill(1)
    watched.look()
    assert watched.kinds() == ["crash"] and watched.findings.counts[OPEN_RANKS_DIED] == 0


def test_a_rank_that_was_asked_to_leave_says_that_it_has_left(watched: Watched):
    watched.fault("open-rank-leave", 1)
    watched.process(1).say("exit 0")
    watched.process(1).wait()
    watched.look()
    assert watched.kinds() == ["crash"]


def test_a_rank_that_leaves_unasked_has_crashed(watched: Watched):
    watched.say(1, "left")
    watched.process(1).say("exit 0")
    watched.process(1).wait()
    watched.look()
    assert watched.kinds() == ["crash"]


def doing(watched: Watched, what: str, *places: int) -> None:
    for place in places:
        progress = Progress(watched.folder / str(place))
        progress.add(0, ops=1)
        progress.set_doing(0, what)
        progress.close()


def test_f22_a_group_that_stands_still_after_a_kill_is_stuck(watched: Watched):
    doing(watched, "waits for an op", 0, 1, 2)
    watched.look()
    watched.fault("open-rank-kill", 2, ago_s=0.0)
    watched.kill(2)
    watched.look(ENDED_PROCESS_TOLD_S - 0.1)
    assert watched.kinds() == [] and not watched.watch.must_restart(watched.now)
    watched.look(0.2)
    assert watched.kinds() == ["stuck"] and watched.watch.must_restart(watched.now)


def test_a_group_may_stand_still_for_longer_after_a_kill_that_servers_may_not_have_seen(watched: Watched):
    doing(watched, "waits for an op", 0, 1)
    watched.look()
    watched.fault("open-rank-kill", 2, ago_s=0.0)
    watched.kill(2)
    watched.look(ENDED_PROCESS_TOLD_S + 1)
    watched.look(1)
    assert watched.kinds() == [], "it had reduced with nobody"
    watched.look(10)
    assert watched.kinds() == ["stuck"]


def test_a_rank_that_the_others_have_left_behind_is_stuck(watched: Watched):
    doing(watched, "waits for an op", 2)
    for place in (0, 1):
        watched.say(place, "ready", slot=0)
        doing(watched, "waits for members", place)
    watched.look()
    watched.look(LATE_S)
    assert watched.watch.groups[watched.group].places == (0, 1)
    doing(watched, "pauses", 0, 1)
    watched.look()
    watched.look(3)
    assert watched.kinds() == []
    watched.look(2)
    assert watched.kinds() == ["stuck"] and "o/2, slot 0 waits for an op" in watched.findings.violations[0].text


def test_a_rank_that_does_not_join_again_is_stuck(watched: Watched):
    doing(watched, "pauses", 0, 1)
    watched.say(2, "fenced")
    watched.look()
    watched.look(works_again_s(watched.world.shape) + COMES_S - 1)
    assert watched.kinds() == []
    watched.look(2)
    assert watched.kinds() == ["stuck"] and watched.watch.must_restart(watched.now)


def test_a_rank_that_has_joined_again_keeps_nobody_waiting_in_the_group_before_that(watched: Watched):
    doing(watched, "waits for an op", 0, 1)
    doing(watched, "pauses", 2)
    watched.say(2, "fenced")
    watched.say(2, "joined", number=3, after_s=0.1)
    watched.look()
    watched.look(60)
    assert watched.kinds() == ["stuck"]


def test_ranks_that_do_something_else_do_not_stand_still(watched: Watched):
    doing(watched, "waits for members", 0, 1)
    doing(watched, "waits for an op", 2)
    watched.look()
    watched.fault("open-rank-stop", 2, ago_s=0.0)
    watched.watch.cluster.stopped.add("o/2")
    watched.look(60)
    assert watched.kinds() == []
    watched.world.incidents.clear()
    watched.watch.cluster.stopped.clear()
    doing(watched, "pauses", 0)
    watched.look(60)
    assert watched.kinds() == [], "a rank outside the library keeps the others waiting"
    doing(watched, "waits for members", 0)
    watched.look(60)
    assert watched.kinds() == ["stuck"]


def test_a_rank_that_does_not_leave_is_told(watched: Watched):
    watched.fault("open-rank-leave", 2, ago_s=0.0)
    watched.look(5)
    assert watched.kinds() == []
    watched.look(10)
    assert watched.kinds() == ["not ended"]


def test_the_job_is_over_when_all_have_left(watched: Watched):
    watched.watch.ask_to_end()
    for place in JOB.ranks:
        assert not watched.watch.is_over()
        watched.say(place, "left")
        watched.process(place).say("exit 0")
        watched.process(place).wait()
        watched.look()
    assert watched.watch.is_over() and watched.kinds() == []
    assert watched.findings.counts[OPEN_RANKS_LEFT] == 0, "the run has ended"
