"""Which faults met: for each ordered pair of kinds how often the second began in which phase of the first."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from chaos.promises import LINK_SILENCE_NOTICED_S


class Lasting(Protocol):
    kind: str
    at_s: float
    for_s: float


@dataclasses.dataclass(frozen=True)
class Phases:
    """How long the phases of a fault are, at most: a short fault goes over into healing at once."""

    noticed_s: float  # from its begin, while the parts notice it
    settled_s: float  # after that, while groups move and settle
    healed_s: float  # from its end, while things come back

    @classmethod
    def of_lease(cls, lease_s: float) -> "Phases":
        return cls(noticed_s=min(lease_s, LINK_SILENCE_NOTICED_S), settled_s=lease_s, healed_s=lease_s + 1)


def overlapping_phase(first: Lasting, at_s: float, phases: Phases) -> str:
    """The phase of the fault at that moment: noticing, settling, open, healing, or "" before it and after all of it."""
    since_begin = at_s - first.at_s
    since_end = since_begin - first.for_s
    if since_begin < 0 or since_end > phases.healed_s:
        return ""
    if since_end > 0:
        return "healing"
    if since_begin < phases.noticed_s:
        return "noticing"
    return "settling" if since_begin < phases.noticed_s + phases.settled_s else "open"


def count_pairs(faults: Iterable[Lasting], phases: Phases) -> Counter[tuple[str, str, str]]:
    """(kind of the first, kind of the second, phase of the first when the second began) -> how often."""
    counts: Counter[tuple[str, str, str]] = Counter()
    ordered = sorted(faults, key=lambda fault: fault.at_s)
    for number, second in enumerate(ordered):
        for first in ordered[:number]:
            if phase := overlapping_phase(first, second.at_s, phases):
                counts[first.kind, second.kind, phase] += 1
    return counts
