"""What docs/failover.md lets happen to an open job (F22 to F24): which failures, rosters and times. Pure."""

import dataclasses
import re
from collections.abc import Set

from chaos import promises
from chaos.expectation import (
    MEMBERSHIP_ENDED, RANK, RANKS, Failure, Patience, Verdict, describe, judge_deadline, judge_unreachable, patience,
    ranks_named,
)  # fmt: skip
from chaos.shape import Job, Shape
from chaos.world import World

TOO_FEW = re.compile(r"it has (\d+) ranks left, and needs (\d+)")
GIVEN_UP = re.compile(r"was lost: server (\S+) lost its connection")
KEPT_OUT = "was taken for lost; the others go on"
NUMBER = re.compile(r"\d+")
OF_GROUP = re.compile(r"\brank \d+ \((rank \d+) of the job\)")  # where the numbers differ, a message has both


@dataclasses.dataclass(frozen=True)
class Member:
    """A rank of a group: a process has a place in the job (its identity) and, while it is in it, a number."""

    place: int
    number: int
    joined_at: float


@dataclasses.dataclass(frozen=True)
class Group:
    """As its ranks were asked to make it."""

    name: str
    slot: int
    members: tuple[Member, ...]
    formed_at: float

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(member.place for member in self.members)


def may_be_lost(world: World, job: Job, group: Group, until: float, gave_up: Set[int] = frozenset()) -> dict[int, str]:
    """Places of the group that it may go on without, and why. What happened before a member joined concerned the
    process that was there before it. `gave_up`: places that told of a failure of their own in this group, or ended
    after one."""
    found = {}
    for member in group.members:
        since = max(member.joined_at, group.formed_at - 2 * world.shape.lease_s - 2)
        if reason := world.why_lost(job, member.place, since, until):
            found[member.place] = reason
        elif member.place in gave_up:
            found[member.place] = "ended: after another failure"
    return found


def in_places(text: str, numbers: dict[int, int]) -> str:
    """The message with places of ranks in place of their numbers; a number that no process had said is nobody's."""

    def place_of(number: re.Match[str]) -> str:
        return str(numbers[int(number[0])]) if int(number[0]) in numbers else f"nobody's {number[0]}"

    def renamed(found: re.Match[str]) -> str:
        return NUMBER.sub(place_of, found[0])

    return RANKS.sub(renamed, RANK.sub(renamed, OF_GROUP.sub(r"\1", text)))


def judge_open(
    failure: Failure, world: World, group: Group | None, lost: dict[int, str], numbers: dict[int, int]
) -> Verdict:
    """`group`: none, where joining failed. `lost`: what may_be_lost() says of it. `numbers`: the places of all numbers
    of the job."""
    job = world.shape.job(failure.job)
    failure = dataclasses.replace(failure, text=in_places(failure.text, numbers))
    if failure.code == "UNAVAILABLE" and failure.where == "join":
        return judge_unreachable(dataclasses.replace(failure, members=(failure.rank,)), world, job)
    if failure.code == "DEADLINE_EXCEEDED" and failure.rank not in lost:
        return judge_deadline(failure, world, job)
    if group is None or failure.code not in ("ABORTED", "FAILED_PRECONDITION", "DEADLINE_EXCEEDED"):
        return Verdict(False, f"failover.md knows no {failure.code} in {failure.where}")
    if failure.code == "FAILED_PRECONDITION":
        return judge_fenced(failure, lost)
    if failure.where == "group" and failure.code == "ABORTED":
        return judge_refused_group(failure, lost)
    return judge_op(failure, world, group, lost)


def judge_fenced(failure: Failure, lost: dict[int, str]) -> Verdict:
    if not MEMBERSHIP_ENDED.search(failure.text) and KEPT_OUT not in failure.text:
        return Verdict(False, f"failover.md knows no such FAILED_PRECONDITION in {failure.where}")
    if failure.rank not in lost:
        return Verdict(False, "F23: this rank was not lost, so it may not be kept out")
    if failure.rank not in ranks_named(failure.text):
        return Verdict(False, f"F23: the message does not name rank {failure.rank}, which may be lost")
    return Verdict(True, f"F23: rank {failure.rank}: {lost[failure.rank]}")


def judge_refused_group(failure: Failure, lost: dict[int, str]) -> Verdict:
    named = ranks_named(failure.text) & set(lost)
    if not named:
        return Verdict(False, f"F22: the message names no rank that may be lost ({describe(lost) or 'nobody'})")
    return Verdict(True, f"F22: rank {min(named)}: {lost[min(named)]}")


def judge_given_up(failure: Failure, world: World, server: str, lost: dict[int, str]) -> Verdict:
    """Servers wait for a scheduler that is away, and fail the group if it does not come back."""
    if not ranks_named(failure.text) & set(lost):
        return Verdict(False, f"F23: the message names no rank that may be lost ({describe(lost) or 'nobody'})")
    node = world.shape.node_of(server)
    if not world.is_last_resort(failure.began, failure.at, lambda open_now: not world.control_works([node], open_now)):
        return Verdict(False, f"F23: {server} gave a rank up, and reached a scheduler")
    return Verdict(True, f"F23: not survived: {server} reached no scheduler until it gave the rank up")


def judge_op(failure: Failure, world: World, group: Group, lost: dict[int, str]) -> Verdict:
    """An op of a group that goes on fails on a rank that is lost itself, and where too few are left. A rank that is
    lost may also wait for its group until its deadline."""
    if failure.rank in lost:
        return Verdict(True, f"F23: rank {failure.rank}: {lost[failure.rank]}")
    too_few = TOO_FEW.search(failure.text)
    if not too_few and (server := GIVEN_UP.search(failure.text)):
        return judge_given_up(failure, world, server[1], lost)
    if not too_few:
        return Verdict(False, "F23: no op may fail because another rank was lost")
    left, needed = int(too_few[1]), int(too_few[2])
    if left >= needed or left < len(group.members) - len(lost):
        return Verdict(False, f"F23: of {len(group.members)} ranks only these may be lost: {describe(lost) or 'none'}")
    return Verdict(True, f"F23: {left} ranks left")


def healed_s(shape: Shape) -> float:
    """Of faults that were over before that nothing is left."""
    return 2 * shape.lease_s + 2


def only_killed(world: World, job: Job, begin: float, end: float) -> bool:
    """Whether nothing has happened that concerns the job but that processes of its ranks were killed."""
    kinds = {incident.kind for incident in world.concerning(job, begin - healed_s(world.shape), end)}
    return kinds == {"open-rank-kill"}


def open_patience(
    world: World, job: Job, now: float, changed_at: float, members: tuple[int, ...], unknown_death_at: float
) -> Patience:
    """For how long a group may make no step. `unknown_death_at`: when the last process ended that had not reduced with
    others, so that servers may not have seen its connections end."""
    calm = patience(world, job, now, changed_at, members)
    if only_killed(world, job, now, now) and now - unknown_death_at > healed_s(world.shape):
        return Patience(calm.since, min(calm.bound_s, promises.ENDED_PROCESS_TOLD_S), "F22")
    recent = world.concerning(job, now - healed_s(world.shape), now)
    missed = any(world.is_missed(job, place, world.open_at(now)) for place in members)
    if missed or any(incident.kind in ("open-rank-kill", "open-rank-stop") for incident in recent):
        return Patience(calm.since, max(calm.bound_s, promises.gone_on_without_s(world.shape)), f"{calm.why}, F23")
    return calm
