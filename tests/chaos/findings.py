"""What a run came to: violations, failures that failover.md allows, how long things took."""

import dataclasses
import sys
import time
from collections import Counter

# Checkers that a run may leave out, by name.
CLOSED_GROUPS = "closed groups"
SLOW_JOIN = "slow join"
MOVES = "moves"
ETCD_MEMORY = "etcd memory"
CHECKERS = (CLOSED_GROUPS, SLOW_JOIN, MOVES, ETCD_MEMORY)

ALLOWED = "failures that failover.md allows"
NOT_JUDGED = "failures not judged for want of processors"
AFTER_MISJUDGED = "failures that may follow from one that was not judged or not allowed"
# Of open jobs.
OPEN_RANKS_DIED = "ranks of open jobs that died"
FENCED = "ranks of open jobs that were taken for lost"
OPEN_RANKS_LEFT = "ranks of open jobs that left"
REJOINED = "ranks of open jobs that joined again"
SMALLER_OPS = "ops with the sum of fewer ranks"
MIXED_OPS = "ops whose chunks have different rosters"
# With more of them a run says too little: it belongs on another machine.
MOST_NOT_JUDGED = 3
MOST_NOT_JUDGED_SHARE = 0.05


@dataclasses.dataclass(frozen=True)
class Violation:
    kind: str  # wrong result, failed op, stuck, not told, crash, memory, left behind, not started, not ended
    text: str
    at_s: float
    open_faults: tuple[str, ...]


class Findings:
    """`say` prints as it happens; `without`: checkers that are left out."""

    def __init__(self, say=None, without: frozenset[str] = frozenset()):
        self.without = without
        self.say = say or (lambda line: print(line, file=sys.stderr, flush=True))
        self.t0 = time.monotonic()
        self.violations: list[Violation] = []
        self.allowed: list[tuple[float, str, str]] = []  # when, which clause, what
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[float, str]] = []
        self.open_faults: list[str] = []
        self.longest_pause_s = 0.0
        self.worst_starved_s = 0.0  # where it was asked for: something seemed to stand still
        self.pauses: Counter[str] = Counter()
        self.longest_after_kill_s = 0.0  # of ops that ended without a killed rank, where nothing else was broken

    def count(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount

    def note(self, text: str, now: float) -> None:
        self.log.append((now, text))
        self.say(f"{now - self.t0:8.2f} s  {text}")

    def violation(self, kind: str, text: str, now: float) -> None:
        self.violations.append(Violation(kind, text, round(now - self.t0, 3), tuple(self.open_faults)))
        self.note(f"VIOLATION, {kind}: {text}\n            open: {'; '.join(self.open_faults) or 'nothing'}", now)

    def failure(self, first: bool, verdict, text: str, now: float) -> None:
        """`first`: of this life of the job."""
        if not verdict.allowed:
            self.violation("failed op", f"{verdict.why}\n            {text}", now)
            return
        self.allowed.append((round(now - self.t0, 3), verdict.why, text))
        self.count(ALLOWED)
        if first:
            self.note(f"allowed ({verdict.why}): {text[:300]}", now)

    def check_judged(self, now: float) -> None:
        """At the end of a run."""
        left_out, judged = self.counts[NOT_JUDGED], self.counts[ALLOWED]
        if left_out > max(MOST_NOT_JUDGED, MOST_NOT_JUDGED_SHARE * (left_out + judged)):
            text = f"{left_out} of {left_out + judged} failures were not judged: this machine is too busy for the run"
            self.violation("not judged", text, now)

    def pause(self, seconds: float, now: float) -> None:
        """Between two steps of a slot."""
        if seconds > self.longest_pause_s:
            self.longest_pause_s = seconds
        for bound in (1, 2, 5, 10, 30):
            if seconds > bound:
                self.pauses[f"over {bound} s"] += 1
