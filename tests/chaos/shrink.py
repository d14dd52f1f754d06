"""Reduces a failing schedule to its last necessary faults: delta debugging, bounded in time. Pure but for the clock."""

import dataclasses
import time
from collections.abc import Callable

from chaos.fault import Fault
from chaos.schedule import Schedule

TRIES = 2  # a schedule on real machines fails by chance: one that passed once is asked again before its faults are kept


def until_first_violation(failing: Schedule, at_s: float) -> Schedule:
    """Without the faults that had not begun by then, and no longer than needed to see it."""
    kept = [fault for fault in failing.faults if fault.at_s <= at_s]
    return failing.with_faults(kept)


def shrink(
    failing: Schedule, fails: Callable[[Schedule], bool], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Schedule:
    """The smallest schedule found that fails; the given one if no smaller does. `fails` runs a candidate."""
    deadline = clock() + seconds

    def still_fails(faults: list[Fault]) -> bool:
        for _ in range(TRIES):
            if clock() > deadline:
                return False
            if fails(moved_to_front(failing.with_faults(faults))):
                return True
        return False

    faults = drop_parts(list(failing.faults), still_fails)
    faults = shorten(faults, still_fails)
    return moved_to_front(failing.with_faults(faults))


def drop_parts(faults: list[Fault], still_fails: Callable[[list[Fault]], bool]) -> list[Fault]:
    """Tries without halves, quarters, ... single faults (ddmin)."""
    parts = 2
    while len(faults) > 1 and parts <= len(faults):
        size = -(-len(faults) // parts)
        for start in range(0, len(faults), size):
            candidate = faults[:start] + faults[start + size :]
            if candidate and still_fails(candidate):
                faults = candidate
                parts = max(2, parts - 1)
                break
        else:
            if parts == len(faults):
                break
            parts = min(len(faults), 2 * parts)
    return faults


def shorten(faults: list[Fault], still_fails: Callable[[list[Fault]], bool]) -> list[Fault]:
    """Halves each fault's duration as long as it fails, the longest first, down to a second."""
    for number in sorted(range(len(faults)), key=lambda index: -faults[index].for_s):
        while faults[number].for_s > 1:
            shorter = dataclasses.replace(faults[number], for_s=round(faults[number].for_s / 2, 3))
            candidate = [*faults[:number], shorter, *faults[number + 1 :]]
            if not still_fails(candidate):
                break
            faults = candidate
    return faults


def moved_to_front(schedule: Schedule) -> Schedule:
    """The first fault begins a second after the start."""
    if not schedule.faults:
        return schedule
    early_s = min(fault.at_s for fault in schedule.faults) - 1
    if early_s <= 0:
        return schedule
    moved = [dataclasses.replace(fault, at_s=round(fault.at_s - early_s, 3)) for fault in schedule.faults]
    return schedule.with_faults(moved)
