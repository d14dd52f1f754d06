"""Watches one open job: its ranks die, leave, are taken for lost and join again, and the others go on (F22 to F24)."""

import dataclasses
import json
import math
import signal
from collections import defaultdict

from chaos import promises
from chaos.chaos_cluster import Running
from chaos.expectation import Failure, Patience, Verdict, patience
from chaos.fault import OPEN_RANK_GONE
from chaos.findings import (
    AFTER_MISJUDGED, FENCED, MIXED_OPS, NOT_JUDGED, OPEN_RANKS_DIED, OPEN_RANKS_LEFT, REJOINED, SMALLER_OPS,
)  # fmt: skip
from chaos.gathering import Gathering
from chaos.job_watch import PAUSES, JobWatch
from chaos.open_expectation import Group, Member, healed_s, judge_open, may_be_lost, only_killed, open_patience
from chaos.progress import WAITS_FOR_MEMBERS
from chaos.rosters import not_allowed

# What a rank says of a smaller roster is judged when all that was done to the cluster by then is known, and what the
# rank that is missing has said.
JUDGED_AFTER_S = 2.0
KEPT_GROUPS = 512
# What follows from a failure that was not judged is no further violation for that long.
FOLLOWS_S = 10.0
# A rank that was asked to leave and can't, because of another fault, is killed then.
LEAVES_S = 30.0
# To start a program on a busy machine, or to close a worker whose groups have failed, beside what joining may take.
COMES_S = 20.0


@dataclasses.dataclass
class Life:
    """Of the process at a place."""

    running: Running
    started_at: float
    number: int = -1  # in the job; -1: it has not joined, or was taken for lost
    joined_at: float = 0.0
    said_left: bool = False
    judged: bool = False  # how it ended


@dataclasses.dataclass(frozen=True)
class Smaller:
    """A rank says that an op has the sum of fewer ranks."""

    place: int
    group: str
    op: int
    chunks: list
    took_s: float
    at: float


class OpenJobWatch(JobWatch):
    def begin(self) -> None:
        super().begin()
        self.lives = {place: self.new_life(place, self.started_at) for place in self.job.ranks}
        self.gatherings = [Gathering() for _ in range(self.job.group_slots)]
        self.groups: dict[str, Group] = {}
        self.group_of: dict[tuple[int, int], Group] = {}  # the newest one that a place was told, by slot
        self.out_since = dict.fromkeys(self.job.ranks, self.started_at)  # of places that are not in the job
        self.made = 0
        self.numbers: dict[int, int] = {}  # of all processes that joined: their places
        self.failed_in: dict[str, set[int]] = defaultdict(set)  # places, by group
        self.crashed_at: dict[int, float] = {}
        self.digests: dict[str, dict[int, str]] = defaultdict(dict)  # of groups, by place
        self.to_judge: list[Smaller] = []
        self.seen_smaller: set[tuple[str, int]] = set()
        self.misjudged_at = -FOLLOWS_S
        self.unknown_death_at = -math.inf  # of a process that had not reduced with others
        self.past_work = {"ops": 0, "groups": 0, "bytes": 0}

    def new_life(self, place: int, now: float) -> Life:
        return Life(self.cluster.running[self.job.rank_name(place)], now)

    def is_over(self) -> bool:
        return all(life.judged for life in self.lives.values())

    def ask_to_end(self) -> None:
        self.ending = True
        for place in self.job.ranks:
            self.say(place, {"end": True})

    def say(self, place: int, what: dict) -> None:
        try:
            self.process(place).say(json.dumps(what))
        except (BrokenPipeError, OSError):
            return  # it has just ended

    # ---- each tick

    def look(self, now: float, leader_since: float, noise_s: float) -> None:
        self.noise_s = noise_s
        for place in self.job.ranks:
            self.look_at(place, now)
        self.judge_due(now)
        if not self.ending:
            self.form_groups(now)
        self.check_steps(now, leader_since, noise_s)

    def look_at(self, place: int, now: float) -> None:
        life = self.lives[place]
        process = life.running.process
        ended = not process.running()
        if ended:
            process.wait()  # for the last of what it said
        for line in life.running.new_lines():
            self.hear(place, line, now)
        if ended and not life.judged:
            life.judged, life.number = True, -1
            for gathering in self.gatherings:
                gathering.leave(place)
            self.judge_end(place, life, process.code, now)
        self.begin_new_life(place, now)

    def begin_new_life(self, place: int, now: float) -> None:
        """If another process is there."""
        if self.cluster.running[self.job.rank_name(place)] is self.lives[place].running:
            return
        self.keep_work(place)
        self.progress[place].close()
        self.progress[place] = self.cluster.progress_of(self.job, place)
        self.lives[place] = self.new_life(place, now)
        self.out_since[place] = now
        self.told.discard(place)
        for slot in self.slots[place]:
            self.last_value.pop((place, slot), None)
        if self.ending:
            self.say(place, {"end": True})

    def judge_end(self, place: int, life: Life, code: int, now: float) -> None:
        if not any(self.progress[place].read(slot)["ops"] for slot in self.slots[place]):
            self.unknown_death_at = now
        name = self.job.rank_name(place)
        by_fault = any(
            incident.fault.target == name and incident.kind in OPEN_RANK_GONE and incident.touches(life.started_at, now)
            for incident in self.world.incidents
        )
        if code == -signal.SIGKILL and by_fault:
            self.findings.count(OPEN_RANKS_DIED)
        elif code == 0 and life.said_left and (by_fault or self.ending):
            self.findings.count(OPEN_RANKS_LEFT, int(not self.ending))
        elif code == -signal.SIGTERM and by_fault and life.joined_at == 0:
            self.findings.count(OPEN_RANKS_LEFT)  # it had not yet begun
        else:
            self.crashed_at[place] = now
            if place not in self.told:  # it has said why
                self.findings.violation("crash", f"{name} ended with {code}:\n{life.running.tail()}", now)
            fault_starts_it, _ = self.world.ends_of(name)
            if not fault_starts_it and not self.ending:
                self.cluster.start_rank(self.job, place)

    def hear(self, place: int, line: str, now: float) -> None:
        try:
            said = json.loads(line)
            what = said["what"]
        except (ValueError, TypeError, KeyError):
            self.findings.log.append((now, f"{self.job.rank_name(place)} says: {line[:400]}"))
            return
        life = self.lives[place]
        if what == "joined":
            self.joins(place, life, said, now)
        elif what == "ready":
            self.gatherings[said["slot"]].come(place, now)
        elif what == "closed":
            self.hear_digest(place, said["group"], said["digest"], now)
        elif what == "smaller":
            self.to_judge.append(Smaller(place, said["group"], said["op"], said["chunks"], said["took_s"], now))
        elif what == "failed":
            self.hear_failure(place, said, now)
        elif what == "fenced":
            life.number = -1
            self.out_since[place] = now
            self.findings.count(FENCED)
            for gathering in self.gatherings:
                gathering.leave(place)
        elif what == "left":
            life.said_left = True
        elif what == "wrong":
            self.told.add(place)
            self.findings.violation("wrong result", f"{self.job.rank_name(place)}: {said['text']}", now)

    def joins(self, place: int, life: Life, said: dict, now: float) -> None:
        if place in self.numbers.values():
            self.findings.count(REJOINED)
        life.number, life.joined_at = said["number"], now
        self.numbers[life.number] = place
        self.said_started.add(place)
        self.joined.add(place)
        self.check_join(place, said["after_s"], now)
        self.findings.count("joins")

    # ---- groups

    def form_groups(self, now: float) -> None:
        live = {place for place, life in self.lives.items() if life.number >= 0 and self.can_go_on(place)}
        if self.made == 0 and len(live) < len(self.job.ranks):
            return  # all are there when the first groups are made
        for slot, gathering in enumerate(self.gatherings):
            if places := gathering.next_members(live, now):
                self.form_group(slot, places, now)

    def form_group(self, slot: int, places: tuple[int, ...], now: float) -> None:
        members = [Member(place, self.lives[place].number, self.lives[place].joined_at) for place in places]
        members.sort(key=lambda member: member.number)
        name = f"{self.cluster.incarnations[self.name]}.{slot}.{self.made}"
        group = Group(name, slot, tuple(members), now)
        self.made += 1
        self.groups[group.name] = group
        told = {"slot": slot, "group": group.name, "members": [[each.number, each.place] for each in members]}
        for place in places:
            self.group_of[place, slot] = group
            self.last_step[place, slot] = now
            self.say(place, told)
        for name in list(self.groups)[:-KEPT_GROUPS]:
            for kept in (self.groups, self.failed_in, self.digests):
                kept.pop(name, None)

    def hear_digest(self, place: int, name: str, digest: str, now: float) -> None:
        """F23: all ranks that did all ops of a group have the same bits, and the same numbers of contributors."""
        others = self.digests[name]
        if different := [other for other, its in others.items() if its != digest]:
            whose = f"{self.job.rank_name(place)} and {self.job.rank_name(different[0])}"
            self.findings.violation("ranks differ", f"{whose} have other results in group {name}", now)
        others[place] = digest

    def may_be_lost(self, group: Group, now: float) -> dict[int, str]:
        crashed = {place for place, when in self.crashed_at.items() if when >= group.formed_at}
        return may_be_lost(self.world, self.job, group, now, self.failed_in[group.name] | crashed)

    # ---- judging

    def judge_due(self, now: float) -> None:
        due = [each for each in self.to_judge if now - each.at > JUDGED_AFTER_S or self.is_over()]
        for each in due:
            self.to_judge.remove(each)
            self.judge_smaller(each, now)

    def judge_smaller(self, smaller: Smaller, now: float) -> None:
        group = self.groups.get(smaller.group)
        if group is None:
            return
        if (smaller.group, smaller.op) not in self.seen_smaller:
            self.seen_smaller.add((smaller.group, smaller.op))
            self.findings.count(SMALLER_OPS)
            self.findings.count(MIXED_OPS, int(len(smaller.chunks) > 1))
        lost = self.may_be_lost(group, now)
        wrong = not_allowed(smaller.chunks, set(lost))
        if not wrong:
            known = smaller.at - self.unknown_death_at > healed_s(self.world.shape)
            if known and only_killed(self.world, self.job, smaller.at - smaller.took_s, smaller.at):
                self.findings.longest_after_kill_s = max(self.findings.longest_after_kill_s, smaller.took_s)
            return
        silenced_s = self.silenced_s(group.formed_at - self.world.shape.lease_s, now)
        if silenced_s > promises.harmless_silence_s(self.world.shape):
            self.findings.count(NOT_JUDGED)
            self.findings.note(f"not judged, a program got no processor for {silenced_s:.1f} s: {smaller}", now)
            return
        self.findings.violation(
            "roster",
            f"{self.job.rank_name(smaller.place)}: op {smaller.op} of group {smaller.group} {group.places} was reduced"
            f" without {wrong}; these may be lost: {lost or 'none'}",
            now,
        )

    def hear_failure(self, place: int, said: dict, now: float) -> None:
        group = self.groups.get(said.get("group", ""))
        places = group.places if group else ()
        name = group.name if group else ""
        failure = Failure(self.name, place, said["where"], said["text"], said["waited_s"], now, name, places)
        lost = self.may_be_lost(group, now) if group else {}
        verdict = judge_open(failure, self.world, group, lost, self.numbers)
        where = f"{self.job.rank_name(place)}, {failure.where} of {name or 'the job'} after {failure.waited_s:.1f} s"
        silenced_s = 0.0 if verdict.allowed else self.silenced_s(failure.began - self.world.shape.lease_s, now)
        if silenced_s > promises.harmless_silence_s(self.world.shape):
            self.findings.count(NOT_JUDGED)
            self.findings.note(f"not judged, a program got no processor for {silenced_s:.1f} s: {failure.text}", now)
            verdict = Verdict(True, "not judged: no processor")
            self.misjudged_at = now
        elif now - self.misjudged_at < FOLLOWS_S and not verdict.allowed:
            self.findings.count(AFTER_MISJUDGED)
        else:
            self.findings.failure(not self.failed_in[name], verdict, f"{where}: {failure.text}", now)
            self.misjudged_at = self.misjudged_at if verdict.allowed else now
        if group:
            self.failed_in[name].add(place)
        else:
            self.told.add(place)  # it ends

    # ---- standing still

    def check_steps(self, now: float, leader_since: float, noise_s: float) -> None:
        # A rank that the others have left behind is in an older group than they are.
        for group in {group.name: group for group in self.group_of.values()}.values():
            places = [place for place in group.places if self.group_of[place, group.slot] is group]
            changed_at = max(group.formed_at, leader_since)
            calm = open_patience(self.world, self.job, now, changed_at, group.places, self.unknown_death_at)
            there = [place for place in places if self.is_in(place, group)]
            busy = any(self.progress[place].doing(group.slot) == PAUSES for place in there)
            for place in places:
                self.check_step(place, group, calm, busy, now)
        self.check_coming(now, noise_s)
        self.check_leaving(now, noise_s)

    def check_coming(self, now: float, noise_s: float) -> None:
        for place, life in self.lives.items():
            if life.number >= 0 or not self.can_go_on(place) or self.stuck or self.ending:
                continue
            since = self.out_since[place]
            calm = patience(self.world, self.job, now, since, (place,))
            if calm.overdue_s(since, now, noise_s) > COMES_S:
                name = self.job.rank_name(place)
                self.findings.violation("stuck", f"{name} has not joined after {now - since:.1f} s", now)
                self.stuck = True

    def check_leaving(self, now: float, noise_s: float) -> None:
        for incident in self.world.open_at(now):
            name = incident.fault.target
            if incident.kind != "open-rank-leave" or name.split("/")[0] != self.name:
                continue
            place = int(name.split("/")[1])
            if self.lives[place].started_at > incident.began or not self.process(place).running():
                continue
            calm = patience(self.world, self.job, now, incident.began, (place,))
            if calm.overdue_s(incident.began + promises.CLOSE_WORKER_S, now, noise_s) > 0 and not self.stuck:
                self.findings.violation("not ended", f"{name} has not left after {now - incident.began:.1f} s", now)
                self.stuck = True
            elif now - incident.began > incident.fault.for_s + LEAVES_S:
                self.cluster.signal(name, signal.SIGKILL)

    def is_in(self, place: int, group: Group) -> bool:
        """As far as it can do something."""
        number = next(member.number for member in group.members if member.place == place)
        return self.lives[place].number == number and self.can_go_on(place)

    def check_step(self, place: int, group: Group, calm: Patience, busy: bool, now: float) -> None:
        slot, key = group.slot, (place, group.slot)
        value, doing = self.progress[place].steps(slot), self.progress[place].doing(slot)
        if value != self.last_value.get(key):
            self.step_made(key, value, now)
        elif busy or doing == WAITS_FOR_MEMBERS or not self.is_in(place, group):
            self.last_step[key] = now
        # A rank that is itself missed waits for what it can't hear.
        if self.world.is_missed(self.job, place, self.world.open_at(now)):
            return
        overdue_s = calm.overdue_s(self.last_step[key], now, self.noise_s)
        if overdue_s > 0 and not self.stuck and overdue_s > self.starved_s(max(calm.since, self.last_step[key]), now):
            self.say_stuck(place, slot, calm.bound_s, calm.why, now)

    def must_restart(self, now: float) -> bool:
        return self.stuck

    def restart(self) -> None:
        self.told = set()
        super().restart()

    # ---- what was done

    def keep_work(self, place: int) -> None:
        for name in self.past_work:
            self.past_work[name] += sum(self.progress[place].read(slot)[name] for slot in self.slots[place])

    def work_done(self) -> dict[str, int]:
        now = super().work_done()
        return {name: amount + self.past_work[name] for name, amount in now.items()}
