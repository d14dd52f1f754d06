#!/usr/bin/env python3
"""Chaos on the real programs and a real network. Needs root, and the programs in build/bin (or SHOAL_BIN).

`make chaos MINUTES=30 SEED=7`; `tests/chaos/run.py --only tests/chaos/schedules/NAME.json` for a written schedule,
`--shrink` to reduce a failing one to its last faults. Exit status: 0 if no check failed, 1 if one did, 2 if nothing
could be run.
"""

import argparse
import os
import pathlib
import re
import signal
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])  # not this folder: its modules are chaos.*

from chaos import report, schedule, shape, shrink  # isort: skip
from chaos.chaos_cluster import private_mounts
from chaos.experiment import Experiment, Outcome
from chaos.fault import KINDS
from chaos.findings import (
    ALLOWED, CHECKERS, FENCED, MIXED_OPS, NOT_JUDGED, OPEN_RANKS_DIED, OPEN_RANKS_LEFT, REJOINED, SMALLER_OPS,
)  # fmt: skip

from hosts.cluster import PROGRAMS
from hosts.left_over import clean_left_over
from hosts.node import HostError


RIG_PRIORITY = -10


def interrupted(number: int, _frame) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def command_to_record(arguments: list[str]) -> str:
    """Without the folder for logs, which is one of this machine alone."""
    return re.sub(r"--logs[= ]\S+ ?", "", " ".join(arguments)).strip()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shape", choices=shape.SHAPES, default="full")
    parser.add_argument("--kinds", default="", help=f"only these faults, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--often", default="", help="half of the faults are of these, separated by commas")
    parser.add_argument("--no-faults", action="store_true", help="nothing is broken: what the rig itself is worth")
    parser.add_argument("--only", type=pathlib.Path, help="a written schedule, instead of a drawn one")
    parser.add_argument("--shrink", action="store_true", help="reduce the schedule, if it fails, to its last faults")
    parser.add_argument("--shrink-minutes", type=float, default=30.0, help="for that long, at most")
    parser.add_argument("--stop-at-first", action="store_true", help="end with the first violation")
    checkers = ", ".join(CHECKERS)
    parser.add_argument(
        "--without", default="", help=f"checkers that are left out, separated by commas, of: {checkers}"
    )
    parser.add_argument("--write", type=pathlib.Path, help="the drawn (or shrunk) schedule, to this file")
    parser.add_argument("--results", action="store_true", help="a record, and the page of all, in results/")
    parser.add_argument("--logs", type=pathlib.Path, help="a folder for what every process said")
    parser.add_argument(
        "--patience", type=float, default=0.0, help="seconds more for everything: how long does it last?"
    )
    parser.add_argument("--print-only", action="store_true", help="the schedule, without running it")
    return parser.parse_args(arguments)


def choose_schedule(options: argparse.Namespace) -> schedule.Schedule:
    """ValueError, TypeError, OSError with what is wrong."""
    if options.only:
        return schedule.load(options.only)
    chosen = shape.SHAPES[options.shape]
    if options.no_faults:
        return schedule.Schedule(chosen, (), options.seed, options.minutes * 60)
    kinds, often = (frozenset(filter(None, names.split(","))) for names in (options.kinds, options.often))
    if unknown := (kinds | often) - set(KINDS):
        raise ValueError(f"there are no faults {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    return schedule.draw_schedule(options.seed, options.minutes * 60, chosen, kinds or None, often=often)


def summary(outcome: Outcome) -> str:
    counts = outcome.counts
    return (
        f"{counts.get('faults', 0)} faults ({outcome.void} found nothing to do), {counts.get('ops', 0)} right results,"
        f" {counts.get('groups', 0)} groups closed, {counts.get('bytes', 0) / 2**20:.0f} MiB,"
        f" {counts.get(ALLOWED, 0)} allowed failures, {counts.get(NOT_JUDGED, 0)} not"
        " judged;"
        f" ranks of open jobs: {counts.get(OPEN_RANKS_DIED, 0)} died, {counts.get(FENCED, 0)} taken for lost,"
        f" {counts.get(OPEN_RANKS_LEFT, 0)} left, {counts.get(REJOINED, 0)} joined again,"
        f" {counts.get(SMALLER_OPS, 0)} results of fewer ranks ({counts.get(MIXED_OPS, 0)} in some chunks alone),"
        f" {outcome.longest_after_kill_s:.2f} s at most after a kill alone;"
        f" longest pause"
        f" {outcome.longest_pause_s:.1f} s; {outcome.wall_s:.0f} s, {outcome.cpu_s / outcome.wall_s:.2f} processors,"
        f" late by {outcome.worst_noise_s:.2f} s at most; {len(outcome.violations)} violations"
    )


def run(options: argparse.Namespace) -> int:
    try:
        chosen = choose_schedule(options)
    except (ValueError, TypeError, OSError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    print(chosen, flush=True)
    if options.write:
        schedule.save(chosen, options.write)
    if options.print_only:
        return 0
    without = set(filter(None, options.without.split(",")))
    if unknown := without - set(CHECKERS):
        there_are = ", ".join(CHECKERS)
        print(f"chaos: there are no checkers {', '.join(sorted(unknown))}; there are {there_are}", file=sys.stderr)
        return 2
    stop = options.stop_at_first or options.shrink
    outcome = Experiment(chosen, without, stop, logs=options.logs, patience_s=options.patience).run()
    print(summary(outcome), flush=True)
    for violation in outcome.violations:
        print(f"VIOLATION at {violation.at_s:.2f} s, {violation.kind}: {violation.text}", flush=True)
    if options.results:
        print(report.write(outcome, report.RESULTS, command_to_record(sys.argv[1:])), flush=True)
    if options.shrink and not outcome.ok:
        least = shrink_failing(chosen, outcome, without, options.shrink_minutes * 60)
        print(f"the last faults:\n{least}", flush=True)
        if options.write:
            schedule.save(least, options.write)
    return 0 if outcome.ok else 1


def shrink_failing(
    failing: schedule.Schedule, outcome: Outcome, without: set[str], seconds: float
) -> schedule.Schedule:
    kinds = {violation.kind for violation in outcome.violations}

    def fails(candidate: schedule.Schedule) -> bool:
        print(f"trying {len(candidate.faults)} faults", file=sys.stderr, flush=True)
        tried = Experiment(candidate, without, True, say=lambda line: None).run()
        return bool(kinds & {violation.kind for violation in tried.violations})

    cut = shrink.until_first_violation(failing, min(violation.at_s for violation in outcome.violations))
    return shrink.shrink(cut, fails, seconds)


def main() -> int:
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGINT, interrupted)  # a shell starts what runs in its background deaf to it
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    if options.print_only:
        return run(options)
    if not (PROGRAMS / "shoal-server").exists():
        print(f"chaos: no programs in {PROGRAMS}: run make build, or set SHOAL_BIN", file=sys.stderr)
        return 2
    try:
        # Faults begin and end when they should, also on a busy machine; the programs have the usual priority.
        os.setpriority(os.PRIO_PROCESS, 0, RIG_PRIORITY)
        private_mounts()
        clean_left_over()
        return run(options)
    except (HostError, PermissionError, OSError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as why:
        print(f"chaos: ended by {str(why) or 'SIGINT'}; everything is cleaned up", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
