"""Watches one job: what its ranks say, whether its groups go on, when it must be started again."""

import json
import signal
import time

from chaos import promises
from chaos.chaos_cluster import ChaosCluster
from chaos.expectation import Failure, Verdict, judge, patience
from chaos.fault import RANK_GONE
from chaos.findings import AFTER_MISJUDGED, NOT_JUDGED, SLOW_JOIN, Findings
from chaos.progress import Progress
from chaos.shape import Job
from chaos.starvation import Starvation
from chaos.work import members_of
from chaos.world import World

# A rank that failed in one group leaves the others at the end of their generation.
GENERATION_S = 30.0
PAUSES = "pauses"


class JobWatch:
    def __init__(self, cluster: ChaosCluster, world: World, job: Job, findings: Findings, starvation: Starvation):
        self.cluster, self.world, self.job, self.findings = cluster, world, job, findings
        self.starvation = starvation
        self.begin()

    def begin(self) -> None:
        """The job's processes have just been started, for the first time or again."""
        self.progress: dict[int, Progress] = {}
        self.slots: dict[int, list[int]] = {}
        seed = self.cluster.seed * 1000 + self.cluster.incarnations[self.job.name]
        self.members = [members_of(self.job, seed, slot) for slot in range(self.job.group_slots)]
        for rank in self.job.ranks:
            self.progress[rank] = self.cluster.progress_of(self.job, rank)
            self.slots[rank] = [slot for slot, members in enumerate(self.members) if rank in members]
        now = time.monotonic()
        self.started_at = self.changed_at = now
        self.said_started: set[int] = set()
        self.joined: set[int] = set()
        self.gone_since: dict[int, float] = {}
        self.not_judged: list[int] = []  # ranks whose end was seen in the last look
        self.failed_at = 0.0
        self.told: set[int] = set()  # ranks that said that something failed
        self.told_ended: set[int] = set()
        self.last_step: dict[tuple[int, int], float] = {}
        self.last_value: dict[tuple[int, int], int] = {}
        self.misjudged = self.stuck = False
        self.ending = False

    @property
    def name(self) -> str:
        return self.job.name

    def is_over(self) -> bool:
        return not self.not_judged and all(rank in self.gone_since for rank in self.job.ranks)

    def process(self, rank: int):
        return self.cluster.running[self.job.rank_name(rank)].process

    def all_moved(self) -> bool:
        """Every slot of every rank has a result."""
        return all(self.progress[rank].read(slot)["ops"] > 0 for rank in self.job.ranks for slot in self.slots[rank])

    def ask_to_end(self) -> None:
        self.ending = True
        self.changed_at = time.monotonic()
        for rank in self.job.ranks:
            if self.process(rank).running():
                try:
                    self.process(rank).say("end")
                except BrokenPipeError:
                    continue  # it has just ended

    # ---- each tick

    def look(self, now: float, leader_since: float, noise_s: float) -> None:
        self.noise_s = noise_s
        # How a rank ended is judged in the next look: what it and others said before that has been read by then.
        seen_before, self.not_judged = self.not_judged, []
        for rank in self.job.ranks:
            if rank not in self.gone_since and not self.process(rank).running():
                self.gone_since[rank] = now
                self.not_judged.append(rank)
        for rank in self.job.ranks:
            for line in self.cluster.running[self.job.rank_name(rank)].new_lines():
                self.hear(rank, line, now)
        for rank in seen_before:
            self.exited(rank, self.process(rank).wait(), now)
        self.check_steps(now, leader_since, noise_s)

    def hear(self, rank: int, line: str, now: float) -> None:
        try:
            said = json.loads(line)
            what = said["what"]
        except (ValueError, TypeError, KeyError):
            self.findings.log.append((now, f"{self.job.rank_name(rank)} says: {line[:400]}"))
            return
        if what == "started":
            self.said_started.add(rank)
            self.changed_at = now
        elif what == "joined":
            self.joined.add(rank)
            self.changed_at = now
            self.check_join(rank, said["after_s"], now)
            self.findings.count("joins")
        elif what == "wrong":
            self.findings.violation("wrong result", f"{self.job.rank_name(rank)}: {said['text']}", now)
            self.fail(now)
        elif what == "failed":
            self.hear_failure(rank, said, now)

    def check_join(self, rank: int, after_s: float, now: float) -> None:
        """Nothing is wrong but that the processes that had the ranks were killed: their places are free at once."""
        earlier = now - after_s - self.world.shape.lease_s
        others = [each for each in self.world.concerning(self.job, earlier, now) if each.kind not in RANK_GONE]
        if not others and after_s > promises.TAKEN_AGAIN_S + self.noise_s and SLOW_JOIN not in self.findings.without:
            self.findings.violation(SLOW_JOIN, f"{self.job.rank_name(rank)} joined after {after_s:.2f} s", now)

    def hear_failure(self, rank: int, said: dict, now: float) -> None:
        first = not self.failed_at
        group, members = said.get("group", ""), self.members[said["slot"]] if said["slot"] >= 0 else ()
        failure = Failure(self.name, rank, said["where"], said["text"], said["waited_s"], now, group, members)
        others_gone = {other: when for other, when in self.gone_since.items() if other != rank and not first}
        verdict = judge(failure, self.world, others_gone | dict.fromkeys(self.told - {rank}, now))
        place = f"{self.job.rank_name(rank)}, {failure.where} of {failure.group or 'the job'}"
        place += f" after {failure.waited_s:.1f} s"
        silenced_s = 0.0 if verdict.allowed else self.silenced_s(failure.began - self.world.shape.lease_s, now)
        if silenced_s > promises.harmless_silence_s(self.world.shape):
            # A process that gets no processor sends no heartbeat. This is counted, and shown in the result.
            self.findings.count(NOT_JUDGED)
            self.findings.note(f"not judged, a program got no processor for {silenced_s:.1f} s: {failure.text}", now)
            verdict = Verdict(True, "not judged: no processor")
        elif self.misjudged:
            self.findings.count(AFTER_MISJUDGED)
        else:
            self.findings.failure(first, verdict, f"{place}: {failure.text}", now)
        self.misjudged = self.misjudged or not verdict.allowed  # what follows from it is no further violation
        self.told.add(rank)
        self.fail(now)

    def fail(self, now: float) -> None:
        if not self.failed_at:
            self.failed_at = self.changed_at = now

    def exited(self, rank: int, code: int, now: float) -> None:
        """A rank that ends without a word was killed by a fault, or crashed."""
        allowed = self.world.why_lost(self.job, rank, self.started_at, now)
        killed_by_fault = code in (-signal.SIGKILL, -signal.SIGTERM) and allowed
        # A rank whose own groups go on ends in good order when another rank has failed in one that it is not in.
        in_good_order = code == 0 and (self.ending or self.failed_at > 0)
        if in_good_order or rank in self.told or killed_by_fault or code == 2:
            self.fail_unless_ending(now)
            return
        tail = self.cluster.running[self.job.rank_name(rank)].tail()
        self.findings.violation("crash", f"{self.job.rank_name(rank)} ended with {code}:\n{tail}", now)
        self.fail(now)

    def fail_unless_ending(self, now: float) -> None:
        if not self.ending:
            self.fail(now)

    def check_steps(self, now: float, leader_since: float, noise_s: float) -> None:
        """I10: no slot of a rank that is there stands still longer than promised."""
        since = max(self.changed_at, leader_since)
        calm_of = [patience(self.world, self.job, now, since, members) for members in self.members]
        waiting_for_start = len(self.said_started) < len(self.job.nodes)
        busy = self.slots_at_work()
        for rank in self.job.ranks:
            for slot in self.slots[rank]:
                key = (rank, slot)
                value = self.progress[rank].steps(slot)
                if value != self.last_value.get(key):
                    self.step_made(key, value, now)
                elif slot in busy:
                    self.last_step[key] = now
                gone = rank in self.gone_since or (self.failed_at and not self.can_go_on(rank))
                if gone or waiting_for_start or self.stuck or rank in self.told:
                    continue
                calm = calm_of[slot]
                overdue_s = calm.overdue_s(self.last_step[key], now, noise_s)
                if overdue_s > 0 and overdue_s > self.starved_s(max(calm.since, self.last_step[key]), now):
                    self.say_stuck(rank, slot, calm.bound_s, calm.why, now)

    def slots_at_work(self) -> set[int]:
        """Slots of which a rank is outside the library: it, and not the product, keeps the others waiting."""
        there = [rank for rank in self.job.ranks if rank not in self.gone_since and self.can_go_on(rank)]
        return {slot for rank in there for slot in self.slots[rank] if self.progress[rank].doing(slot) == PAUSES}

    def starved_s(self, since: float, now: float) -> float:
        """What the machine kept this job's ranks and all services from running."""
        starved_s = self.starvation.waited_s(self.pids(), since, now)
        self.findings.worst_starved_s = max(self.findings.worst_starved_s, starved_s)
        return starved_s

    def silenced_s(self, since: float, now: float) -> float:
        """For how long in a row it kept one of them from running at all."""
        return self.starvation.silenced_s(self.pids(), since, now)

    def pids(self) -> list[int]:
        running = self.cluster.running.items()
        return [each.process.pid for name, each in running if "/" not in name or name.startswith(f"{self.name}/")]

    def can_go_on(self, rank: int) -> bool:
        return self.process(rank).running() and self.job.rank_name(rank) not in self.cluster.stopped

    def step_made(self, key: tuple[int, int], value: int, now: float) -> None:
        before = self.last_step.get(key, now)
        if key in self.last_value:
            self.findings.pause(now - before, now)
        self.last_step[key] = now
        self.last_value[key] = value

    def say_stuck(self, rank: int, slot: int, bound_s: float, why: str, now: float) -> None:
        """Once for a job's life; then it is started again."""
        self.stuck = True
        stood_s = now - self.last_step[rank, slot]
        kind = "not told" if self.failed_at else "stuck"
        doing = self.progress[rank].doing(slot)
        lines = [f"{self.job.rank_name(rank)}, slot {slot} {doing} for {stood_s:.1f} s; {why} allows {bound_s:.1f} s"]
        for other in self.job.ranks:
            its = [f"slot {each} {self.progress[other].doing(each)}" for each in self.slots[other]]
            last = self.cluster.running[self.job.rank_name(other)].tail(3).splitlines()
            said = [line for line in last if line[:1] != "{"]
            lines.append(f"{self.job.rank_name(other)}: {', '.join(its)} {' | '.join(said)[-600:]}")
        self.findings.violation(kind, "\n".join(lines), now)
        self.cluster.record_sockets(self.job)

    def must_restart(self, now: float) -> bool:
        """Ranks of a job that failed get the time to be told; a stuck one gets none."""
        if self.stuck:
            return True
        if not self.failed_at or self.not_judged:
            return False
        others_told = all(
            rank in self.gone_since or self.job.rank_name(rank) in self.cluster.stopped for rank in self.job.ranks
        )
        return others_told or now - self.failed_at > promises.told_s(self.cluster.shape) + GENERATION_S

    def restart(self) -> None:
        for rank in self.job.ranks:
            self.cluster.signal(self.job.rank_name(rank), signal.SIGKILL)
        for progress in self.progress.values():
            progress.close()
        self.cluster.start_job(self.job)
        self.begin()
        self.findings.count("job starts")

    def work_done(self) -> dict[str, int]:
        """Sums over ranks and slots, of this life."""
        total = {"ops": 0, "groups": 0, "bytes": 0}
        for rank in self.job.ranks:
            for slot in self.slots[rank]:
                values = self.progress[rank].read(slot)
                total = {name: total[name] + values[name] for name in total}
        return total
