"""Schedules: drawn from a seed, written to and read from a file. The same seed gives the same schedule, always."""

import dataclasses
import json
import math
import pathlib
import random
from collections import Counter

from chaos import shape as shapes
from chaos.fault import (
    KINDS, PROCESS_GONE, PROCESS_STOPPED, RANK_GONE, Fault, Kind, check, concerns_control, draw, kinds_for,
)  # fmt: skip
from chaos.pairs import Phases, overlapping_phase
from chaos.promises import leader_replaced_s, works_again_s
from chaos.shape import Shape

SCHEDULES = pathlib.Path(__file__).with_name("schedules")  # that were written
MOST_FAULTS_OF_EPISODE = 10
MOST_OPEN = 4
MOST_BEYOND_S = 1.0  # a fault that is as short as its kind can be may end so much later than the rest
CHECK_S = 3.0  # in which a check that is due comes
JOB_ENDERS = 0.15  # share of the choices in which a kind may be drawn that ends jobs


@dataclasses.dataclass(frozen=True)
class Schedule:
    shape: Shape
    faults: tuple[Fault, ...]  # by their begin
    seed: int = 0  # also of the jobs' work
    calm_s: float = 0.0  # after the last fault, until the jobs are told to end
    name: str = ""
    happens: str = ""  # of a written one: what the tree did on which it was found
    should_happen: str = ""
    clause: str = ""
    # Of a written one: the deliberate bug by which the simulator's seeds find the same (tests/mutations), or "none: "
    # and why they can't.
    simulator: str = ""

    @property
    def end_s(self) -> float:
        return max((fault.at_s + fault.for_s for fault in self.faults), default=0.0) + self.calm_s

    def __str__(self) -> str:
        lines = [f"schedule {self.name or self.seed}: {len(self.faults)} faults in {self.end_s:.0f} s"]
        return "\n".join([*lines, *(f"  {number:4} {fault}" for number, fault in enumerate(self.faults))])

    def with_faults(self, faults: list[Fault]) -> "Schedule":
        return dataclasses.replace(self, faults=tuple(sorted(faults, key=lambda fault: fault.at_s)))


def calm_of(shape: Shape, faults: list[Fault]) -> float:
    """Long enough for what failover.md promises after these faults, and for the check that it came."""
    return longest_calm_of(shape) if any(map(concerns_control, faults)) else works_again_s(shape) + CHECK_S


def longest_calm_of(shape: Shape) -> float:
    return max(works_again_s(shape), leader_replaced_s(shape)) + CHECK_S


def duration(kind: Kind, left_s: float, source: random.Random) -> float:
    """As often between 0.1 and 1 s as between 1 and 10 s."""
    longest = max(kind.shortest_s, min(kind.longest_s, left_s))
    return math.exp(source.uniform(math.log(kind.shortest_s), math.log(longest)))


def draw_schedule(
    seed: int, seconds: float, shape: Shape, only: set[str] | None = None, calm_s: float = 0.0,
    often: frozenset[str] = frozenset(),
) -> Schedule:  # fmt: skip
    """Episodes of overlapping faults with a calm after each, about `seconds` in all. `only`: names of kinds; no others.
    `often`: one of these in every other choice, where it fits.

    Of the pairs (this fault, one that begins while it is open or healing) those come first that came least so far.
    """
    source = random.Random(f"chaos {seed}")
    kinds = [kind for kind in kinds_for(shape) if only is None or kind.name in only]
    drawn = Drawn(shape, kinds, source, often)
    at_s, longest_calm_s = 1.0, calm_s or longest_calm_of(shape)
    while kinds and at_s + longest_calm_s < seconds:
        episode = drawn.episode(at_s, seconds - longest_calm_s)
        at_s = max(fault.at_s + fault.for_s for fault in episode) + (calm_s or calm_of(shape, episode))
    faults = sorted(drawn.faults, key=lambda fault: (fault.at_s, fault.kind, fault.target))
    return Schedule(shape, tuple(faults), seed, longest_calm_s)


class Drawn:
    """The faults drawn so far, and how often each pair of kinds met."""

    def __init__(self, shape: Shape, kinds: list[Kind], source: random.Random, often: frozenset[str]):
        self.shape, self.kinds, self.source, self.often = shape, kinds, source, often
        self.phases = Phases.of_lease(shape.lease_s)
        self.faults: list[Fault] = []
        self.met: Counter[tuple[str, str]] = Counter()
        self.count: Counter[str] = Counter()

    def episode(self, begin_s: float, end_s: float) -> list[Fault]:
        """Draws its faults."""
        wanted = self.source.randint(2, MOST_FAULTS_OF_EPISODE)
        room_s = end_s - begin_s
        first = draw(self.choose([], room_s), self.shape, begin_s, 0.0, self.source)
        here = [self.lasting(first, room_s)]
        for _ in range(wanted - 1):
            before = self.source.choice(here)
            at_s = self.moment(before)
            open_then = [fault for fault in here if fault.at_s <= at_s < fault.at_s + fault.for_s]
            if at_s >= end_s or len(open_then) >= MOST_OPEN:
                continue
            meets = [fault for fault in here if overlapping_phase(fault, at_s, self.phases)]
            kind = self.choose(meets, end_s - at_s)
            fault = self.lasting(draw(kind, self.shape, at_s, 0.0, self.source), end_s - at_s)
            if any(collides(fault, other) for other in here):
                continue
            for other in meets:
                self.met[other.kind, fault.kind] += 1
            here.append(fault)
        self.faults += here
        self.count.update(fault.kind for fault in here)
        return here

    def lasting(self, fault: Fault, room_s: float) -> Fault:
        return dataclasses.replace(fault, for_s=round(duration(KINDS[fault.kind], room_s, self.source), 3))

    def choose(self, meets: list[Fault], room_s: float) -> Kind:
        """The kind that met those faults least."""
        enders = self.source.random() < JOB_ENDERS
        fit = [kind for kind in self.kinds if kind.shortest_s <= max(room_s, MOST_BEYOND_S)] or self.kinds
        kinds = [kind for kind in fit if enders or not kind.ends_jobs] or fit
        if self.often and self.source.random() < 0.5:  # without any, a seed is what it always was
            kinds = [kind for kind in fit if kind.name in self.often] or kinds
        counts = {kind.name: sum(self.met[other.kind, kind.name] for other in meets) for kind in kinds}
        if not meets:
            counts = {kind.name: self.count[kind.name] for kind in kinds}
        least = min(counts.values())
        return self.source.choice([kind for kind in kinds if counts[kind.name] == least])

    def moment(self, before: Fault) -> float:
        """While the fault before is open, being noticed, settling, or healing."""
        begin, end = before.at_s, before.at_s + before.for_s
        phase = self.source.choice(("open", "noticed", "settling", "healing"))
        if phase == "open":
            return self.source.uniform(begin, end)
        if phase == "noticed":
            return begin + self.source.uniform(0, self.phases.noticed_s)
        if phase == "settling":
            return begin + self.phases.noticed_s + self.source.uniform(0, self.phases.settled_s)
        return end + self.source.uniform(0, self.phases.healed_s)


def is_of_process(kind: str) -> bool:
    return kind in PROCESS_GONE | PROCESS_STOPPED | RANK_GONE


def collides(one: Fault, other: Fault) -> bool:
    """The same process can't be killed and stopped at a time, nor the same clock set twice: the second would be
    none. And an etcd member that is killed is not there to find its disk full."""
    processes = all(is_of_process(fault.kind) for fault in (one, other))
    apart = one.at_s > other.at_s + other.for_s or other.at_s > one.at_s + one.for_s
    same_process = processes and one.target == other.target
    job_and_rank = {one.target.split("/")[0], other.target.split("/")[0]}
    same_job = len(job_and_rank) == 1 and (one.kind == "job-restart" or other.kind == "job-restart")
    killed_and_full = {one.kind, other.kind} == {"etcd-kill", "disk-full"} and (
        one.target.rsplit("-", 1)[1] == other.target.rsplit("-", 1)[1]
    )
    same = same_process or same_job or killed_and_full or (one.kind, one.target) == (other.kind, other.target)
    return not apart and same


def to_document(schedule: Schedule) -> dict:
    document = {
        field: getattr(schedule, field)
        for field in ("name", "clause", "happens", "should_happen", "simulator", "seed", "calm_s")
    }
    document["shape"] = shapes.to_document(schedule.shape)
    document["faults"] = [fault_document(fault) for fault in schedule.faults]
    return document


def fault_document(fault: Fault) -> dict:
    return {name: value for name, value in dataclasses.asdict(fault).items() if value not in ("",) or name == "target"}


def from_document(document: dict) -> Schedule:
    """ValueError or TypeError with what is wrong. A shape may be one of SHAPES by its name."""
    fields = dict(document)
    shape = fields["shape"]
    fields["shape"] = shapes.SHAPES[shape] if isinstance(shape, str) else shapes.from_document(shape)
    faults = [Fault(**fault) for fault in fields["faults"]]
    for fault in faults:
        check(fault, fields["shape"])
    fields["faults"] = tuple(sorted(faults, key=lambda fault: fault.at_s))
    return Schedule(**fields)


def load(path: pathlib.Path) -> Schedule:
    return from_document(json.loads(path.read_text(encoding="utf-8")))


def save(schedule: Schedule, path: pathlib.Path) -> None:
    path.write_text(json.dumps(to_document(schedule), indent=1) + "\n", encoding="utf-8")
