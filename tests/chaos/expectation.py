"""What docs/failover.md lets happen: is this failure allowed, and does its message name the party at fault? Pure."""

import dataclasses
import re
from collections.abc import Sequence

from chaos import promises
from chaos.fault import IMPAIRMENTS, concerns_control
from chaos.shape import Job
from chaos.world import World

RANK = re.compile(r"\brank (\d+)\b")
# What a rank that gives its group up at a deadline says to the others (F21): of an op, and of a request for a group.
NOT_DONE = re.compile(r"\bis not done after ([\d.]+) s\b")
NO_ANSWER = "it gave its request for the group up: no scheduler answered"
# What the scheduler's refusal of a lost rank becomes: of a request for a group, and of an op that needs other servers.
MEMBERSHIP_ENDED = re.compile(
    r"ended this worker's membership|refuses this process|can't go on with one of its servers .* no other: "
)
RANKS = re.compile(r"\branks ((?:\d+(?:, | and )?)+)")


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a rank said of a call that failed."""

    job: str
    rank: int
    where: str  # join, group, submit, op
    text: str  # "CODE: message"
    waited_s: float
    at: float
    group: str = ""
    members: tuple[int, ...] = ()  # ranks of the group; none: all of the job

    @property
    def code(self) -> str:
        return self.text.split(":", 1)[0]

    @property
    def began(self) -> float:
        return self.at - self.waited_s


@dataclasses.dataclass(frozen=True)
class Verdict:
    allowed: bool
    why: str


def ranks_named(text: str) -> set[int]:
    found = {int(number) for number in RANK.findall(text)}
    for numbers in RANKS.findall(text):
        found |= {int(number) for number in re.findall(r"\d+", numbers)}
    return found


def judge(failure: Failure, world: World, gone_since: dict[int, float] | None = None) -> Verdict:
    """`gone_since`: ranks of the job that have ended by themselves, after an earlier failure of this job was judged."""
    job = world.shape.job(failure.job)
    begin = failure.began - 2 * world.shape.lease_s - 2
    # F20; the others hear it with the same code from the rank that heard it first (F21).
    if failure.code == "RESOURCE_EXHAUSTED" and any(name in failure.text for name in world.shape.server_names):
        small = [name for name, _ in world.shape.server_options if name in failure.text]
        return Verdict(bool(small), "a server that is too small is named" if small else "no server is too small")
    if failure.code == "ABORTED":
        told = told_deadline(failure, world)
        if told is None:
            return judge_aborted(failure, world, job, begin, gone_since or {})
        verdict = judge_deadline(told, world, job)
        return dataclasses.replace(verdict, why=f"F21, told by another rank: {verdict.why}")
    if failure.code == "FAILED_PRECONDITION" and MEMBERSHIP_ENDED.search(failure.text):
        return judge_ended_membership(failure, world, job, begin)
    if failure.code == "DEADLINE_EXCEEDED":
        return judge_deadline(failure, world, job)
    if failure.code == "UNAVAILABLE" and failure.where == "join":
        return judge_unreachable(failure, world, job)
    return Verdict(False, f"failover.md knows no {failure.code} in {failure.where}")


def told_deadline(failure: Failure, world: World) -> Failure | None:
    """What another rank said that gave the group up at its deadline (F21), after which time; None: it was not that."""
    not_done = NOT_DONE.search(failure.text)
    if not_done:  # before that stands who says it
        return dataclasses.replace(failure, waited_s=float(not_done[1]), text=failure.text[not_done.end() :])
    if NO_ANSWER in failure.text:
        return dataclasses.replace(failure, waited_s=world.shape.op_timeout_ms / 1000)
    return None


def judge_aborted(failure: Failure, world: World, job: Job, begin: float, gone_since: dict[int, float]) -> Verdict:
    lost = world.lost_ranks(job, begin, failure.at)
    lost |= {rank: "ended: after another failure" for rank, when in gone_since.items() if when <= failure.at}
    if not lost:
        return Verdict(False, "F11: no rank was lost, so no op may end with ABORTED")
    named = ranks_named(failure.text) & set(lost)
    if not named:
        return Verdict(False, f"F11: the message names none of the ranks that may be lost ({describe(lost)})")
    return Verdict(True, f"F11: rank {min(named)}: {lost[min(named)]}")


def judge_ended_membership(failure: Failure, world: World, job: Job, begin: float) -> Verdict:
    """F11, F21: what the scheduler tells a rank that it has declared lost."""
    lost = world.lost_ranks(job, begin, failure.at)
    if failure.rank not in lost:
        return Verdict(False, "F11: this rank was not lost, so the scheduler may not end its membership")
    if failure.rank not in ranks_named(failure.text):
        return Verdict(False, f"F11: the message does not name rank {failure.rank}, which may be lost")
    return Verdict(True, f"F11: rank {failure.rank}: {lost[failure.rank]}")


def judge_deadline(failure: Failure, world: World, job: Job) -> Verdict:
    promised_s = promises.works_again_s(world.shape)
    worked_s = world.longest_working(job, failure.began, failure.at, failure.members)
    if failure.waited_s < world.shape.op_timeout_ms / 1000 - 1:
        return Verdict(False, f"the deadline was not over after {failure.waited_s:.1f} s")
    if worked_s > promised_s + promises.leader_replaced_s(world.shape):
        return Verdict(False, f"I10: all that the group needs was there for {worked_s:.1f} s of the time")
    parties = world.parties_at_fault(job, failure.began, failure.at)
    words = {f"rank {rank}" for rank in ranks_named(failure.text)} | {word for word in parties if word in failure.text}
    if not words & parties:
        return Verdict(False, f"the message names none of {', '.join(sorted(parties)) or 'nobody'}")
    return Verdict(True, f"not survived: {', '.join(sorted(words & parties))} away until the deadline")


def judge_unreachable(failure: Failure, world: World, job: Job) -> Verdict:
    worked_s = world.longest_working(job, failure.began, failure.at, failure.members)
    if worked_s > promises.works_again_s(world.shape) + promises.leader_replaced_s(world.shape):
        return Verdict(False, f"I10: a scheduler could be reached for {worked_s:.1f} s of the time")
    return Verdict(True, "F12: no scheduler could be reached")


def describe(lost: dict[int, str]) -> str:
    return "; ".join(f"rank {rank}: {why}" for rank, why in sorted(lost.items()))


@dataclasses.dataclass(frozen=True)
class Patience:
    """For how long a group may make no step, and since when that is counted."""

    since: float
    bound_s: float  # infinite while the job can't work
    why: str

    def overdue_s(self, last_step: float, now: float, noise_s: float) -> float:
        """Above 0: it is stuck."""
        return now - max(self.since, last_step) - self.bound_s - noise_s


IMPAIRED_FACTOR = 3  # failover.md says nothing of a link that works badly; this much longer is allowed here


def patience(world: World, job: Job, now: float, changed_at: float, members: Sequence[int] = ()) -> Patience:
    """Of a group of these ranks; none given: of all. `changed_at`: when the job itself last changed (began, had all
    ranks, lost one), or the leading scheduler did."""
    shape = world.shape
    open_now = world.open_at(now)
    since = changed_at
    bound_s, why = promises.works_again_s(shape), "I10"
    for incident in world.concerning(job, now - 3 * promises.leader_replaced_s(shape), now):
        # A link that begins to work badly breaks nothing: it has a bound of its own below.
        moments = (incident.mended,) if incident.kind in IMPAIRMENTS else (incident.began, incident.mended)
        since = max([since, *(when for when in moments if when <= now)])
        replaced_s = promises.leader_replaced_s(shape, incident.fault.target.startswith(("etcd-", "control-")))
        if concerns_control(incident.fault) and now - min(incident.mended, now) < replaced_s:
            bound_s, why = max(bound_s, replaced_s), "F16"
        elif incident.open_at(now) and incident.kind.startswith(("path-", "node-")):
            bound_s = max(bound_s, promises.way_around_s(shape))
    if not world.works_for(job, open_now, members):
        return Patience(since, float("inf"), "the group can't work")
    impaired = [each for each in open_now if each.kind in IMPAIRMENTS and world.concerns(each.fault, job)]
    if impaired:
        queue_s = max(world.queue_s(incident, open_now) for incident in impaired)
        bound_s, why = max(IMPAIRED_FACTOR * bound_s, bound_s + queue_s), why + ", over an impaired link"
    return Patience(since, bound_s, why)
