"""Medians, spreads and ratios of what interleaved rounds gave. Pure functions."""

import math
import random
import statistics
from collections.abc import Callable

BOOTSTRAP_SAMPLES = 2000


def percentile(values: list[float], percent: float) -> float:
    """By nearest rank, so that it is a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def spread(rounds: list[list[float]]) -> dict:
    values = [value for values in rounds for value in values]
    return {
        "median": statistics.median(values),
        "p10": percentile(values, 10),
        "p90": percentile(values, 90),
        "count": len(values),
    }


def ratio_of_medians(left: list[list[float]], right: list[list[float]]) -> dict:
    """Ratio of the medians with the bootstrap's 95 % interval."""
    return of_medians(lambda left_us, right_us: left_us / right_us, left, right)


def exchange_over_bare(step: list[list[float]], alone: list[list[float]], bare: list[list[float]]) -> dict:
    """What a step takes beyond one that exchanges nothing, as a multiple of a bare all-reduce, likewise."""
    return of_medians(lambda step_us, alone_us, bare_us: (step_us - alone_us) / bare_us, step, alone, bare)


def of_medians(value: Callable[..., float], *contenders: list[list[float]]) -> dict:
    """The value that follows from the contenders' medians, with the bootstrap's 95 % interval.

    Rounds are drawn first, all contenders' of a round together, because what disturbs a machine lasts longer than one
    all-reduce; then times within each.
    """
    draw = random.Random(1)
    numbers = range(min(len(rounds) for rounds in contenders))

    def median_of(rounds: list[list[float]], drawn: list[int]) -> float:
        return statistics.median(
            [value for number in drawn for value in draw.choices(rounds[number], k=len(rounds[number]))]
        )

    samples = []
    for _ in range(BOOTSTRAP_SAMPLES):
        drawn = draw.choices(numbers, k=len(numbers))
        samples.append(value(*[median_of(rounds, drawn) for rounds in contenders]))
    return {
        "median": value(*[spread(rounds)["median"] for rounds in contenders]),
        "low95": percentile(samples, 2.5),
        "high95": percentile(samples, 97.5),
    }
