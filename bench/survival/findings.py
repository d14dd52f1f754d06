"""What a disturbed run says beside the undisturbed one. Pure functions on the records of run.py."""

import itertools
import statistics

import summary

# Ops may take so much longer than the slowest hundredth of those before without counting as late.
MOST_OVER_P99 = 1.5


def step_times_s(record: dict) -> list[float]:
    """Without the first step, which has no beginning and is a warm-up."""
    return [end - begin for begin, end in itertools.pairwise(record["step_ended_at"])]


def distribution(values: list[float]) -> dict:
    return {
        "median": statistics.median(values),
        "p99": summary.percentile(values, 99),
        "max": max(values),
        "count": len(values),
    }


def added_by_each_kill_s(record: dict, undisturbed_step_s: float) -> list[float]:
    """Of the step under way at the kill and the one after it the slower one, less an undisturbed step's median.

    The one after it, because a kill may fall between two all-reduces."""
    ends = record["step_ended_at"]
    added = []
    for fault in record["faults"]:
        if fault["kind"] != "kill":
            continue
        hit = next(number for number, end in enumerate(ends) if end >= fault["began_at"])
        times = [ends[number] - ends[number - 1] for number in (hit, hit + 1) if 0 < number < len(ends)]
        added.append(max(times) - undisturbed_step_s)
    return added


def added_in_all_s(record: dict, undisturbed: dict) -> float:
    return sum(step_times_s(record)) - sum(step_times_s(undisturbed))


def ops_around(record: dict, fault: dict) -> dict:
    """All-reduces that ended before a fault began, while it lasted, and after it."""
    parts: dict[str, list[float]] = {"before": [], "during": [], "after": []}
    for ended_at, seconds in zip(record["all_reduce_ended_at"], record["all_reduce_seconds"]):
        if ended_at < fault["began_at"]:
            parts["before"].append(seconds)
        elif ended_at <= fault["ended_at"]:
            parts["during"].append(seconds)
        else:
            parts["after"].append(seconds)
    found: dict = {name: distribution(values) for name, values in parts.items() if values}
    limit = MOST_OVER_P99 * found["before"]["p99"]
    found["limit"] = limit
    found["late"] = sum(seconds > limit for seconds in parts["during"])
    found["late_before"] = sum(seconds > limit for seconds in parts["before"])
    return found
