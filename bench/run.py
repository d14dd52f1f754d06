#!/usr/bin/env python3
"""Measures Shoal beside other all-reduces in a rig of shaped links or on one node, and writes what came out.

Each PART becomes three files in bench/results/: PART_DATE.json (everything), .md (to read) and .svg (the chart).
"""

import argparse
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import shlex
import signal
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
sys.path.append(str(ROOT / "tests"))

import fabric_model.gpu_nodes as gpu_nodes
import fabric_model.run as scale_model
import gpt_training
import machine
import report as page
import survival.run as survival
from contenders import roster
from measurement import Settings, run_scenario
from parts import MIB, PARTS, Part
from hosts.left_over import clean_left_over
from hosts.node import HostError

OPEN_MPI_PROGRAM = ROOT / "build/bench/open_mpi_rank"
TITLES = {part.name: part.title for part in PARTS}
TITLES |= {each.NAME: each.TITLE for each in (scale_model, gpu_nodes, gpt_training, survival)}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="parts:\n" + "\n".join(f"  {name:12} {title}" for name, title in TITLES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure (default: every part)")
    parser.add_argument("--rounds", type=int, default=5, help="of each contender (default %(default)s, at least 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="of the parts, the scenarios whose name holds TEXT")
    parser.add_argument("--size", type=float, metavar="MIB", help="of their cases, those of tensors of MIB MiB")
    parser.add_argument("--minutes", type=float, default=60, help="a part begins no round later (default %(default)s)")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/bin", help="folder (default build/bin)")
    parser.add_argument(
        "--other-build",
        type=pathlib.Path,
        metavar="PROGRAMS",
        help="folder of the programs of another build, measured in turns with ours: says what a change costs",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="with --other-build: measures it twice, so that the page says how far a build differs from itself",
    )
    parser.add_argument("--contenders", default="", metavar="NAME,...", help="measure only these of each scenario")
    parser.add_argument("--output", type=pathlib.Path, default=BENCH / "results", help="folder (default bench/results)")
    model = parser.add_argument_group(f"of the part {scale_model.NAME}")
    model.add_argument("--most-workers", type=int, default=1024, help="in the model (default %(default)s)")
    model.add_argument("--reuse", type=pathlib.Path, metavar="JSON", help="an earlier result: measures nothing anew")
    survive = parser.add_argument_group(f"of the part {survival.NAME}")
    survive.add_argument("--nodes", type=int, default=1, help="of the 4 ranks; with 2 they are rails (default 1)")
    survive.add_argument("--steps", type=int, default=1000, help="of each training (default %(default)s)")
    survive.add_argument("--kills", type=int, default=100, help="of servers (default %(default)s)")
    survive.add_argument("--rolling-restarts", type=int, default=10, help="of all servers (default %(default)s)")
    survive.add_argument("--away-seconds", type=float, default=60, help="of the scheduler (default %(default)s)")
    survive.add_argument("--seed", type=int, default=1, help="of the kills' moments (default %(default)s)")
    arguments = parser.parse_args()
    for name in arguments.parts:
        if name not in TITLES:
            parser.error(f"there is no part {name}; choose from {', '.join(TITLES)}")
    if arguments.rounds < 3:
        parser.error("--rounds must be at least 3, or the interval says nothing")
    if arguments.control and arguments.other_build is None:
        parser.error("--control measures the other build twice: name its folder with --other-build")
    if arguments.nodes not in (1, 2):
        parser.error("--nodes must be 1 or 2: there are 4 ranks, and a node of one rank has nothing to reduce inside")
    if arguments.steps < 2 * max(arguments.kills, arguments.rolling_restarts, 10):
        parser.error("--steps must be at least twice as many as there are kills or restarts")
    for folder in filter(None, (arguments.programs, arguments.other_build)):
        for program in ("shoal-scheduler", "shoal-server", "shoal-perf"):
            if not (folder / program).is_file():
                parser.error(f"{folder / program} is not there: run `make build` there, or give another folder")
    arguments.contenders = tuple(filter(None, arguments.contenders.split(",")))
    for name in arguments.contenders:
        if name not in roster.LABELS:
            parser.error(f"there is no contender {name}; choose from {', '.join(roster.LABELS)}")
    return arguments


def make_settings(arguments: argparse.Namespace) -> Settings:
    deadline = time.monotonic() + arguments.minutes * 60
    return Settings(arguments.programs, arguments.other_build, OPEN_MPI_PROGRAM, arguments.rounds, deadline)


def run_model(arguments: argparse.Namespace) -> None:
    """HostError if something could not be measured or simulated."""
    started = datetime.datetime.now(datetime.UTC)
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    settings = make_settings(arguments)
    scale_model.run(ROOT, settings, arguments.output, started, command, arguments, lambda line: print(line, flush=True))


def run_gpu_nodes(arguments: argparse.Namespace) -> None:
    """HostError if something could not be simulated."""
    started = datetime.datetime.now(datetime.UTC)
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    gpu_nodes.run(ROOT, arguments.output, started, command, lambda line: print(line, flush=True))


def run_gpt_training(arguments: argparse.Namespace) -> None:
    """HostError if something could not be measured."""
    started = datetime.datetime.now(datetime.UTC)
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    say = functools.partial(print, flush=True)
    gpt_training.run(ROOT, arguments.programs, arguments.output, started, command, arguments.rounds, say)


def run_survival(arguments: argparse.Namespace) -> bool:
    """Whether every run ended with the same weights. HostError if a run failed."""
    started = datetime.datetime.now(datetime.UTC)
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    return survival.run(
        ROOT, arguments.programs, arguments.output, started, command, arguments, lambda line: print(line, flush=True)
    )


def run_part(part: Part, arguments: argparse.Namespace) -> bool:
    """Whether every result was right. HostError if something could not be measured."""
    started = datetime.datetime.now(datetime.UTC)
    name = part.name if arguments.other_build is None else f"{part.name}-two-builds"
    base = arguments.output / f"{name}_{started:%Y-%m-%d}"
    command = shlex.join(["bench/run.py", *sys.argv[1:]])
    report = machine.begin_report(part.name, part.title, started, command, ROOT) | {
        "note": part.note,
        "chart": f"{base.name}.svg",
        "scenarios": [],
    }
    if arguments.programs.resolve() != (ROOT / "build/bin").resolve():
        report["machine"]["programs_commit"] = machine.commit_of_programs(arguments.programs)
    if arguments.other_build is not None:
        report["machine"]["other_commit"] = machine.commit_of_programs(arguments.other_build)
    settings = make_settings(arguments)
    for scenario in part.scenarios:
        if arguments.only not in scenario.name:
            continue
        if arguments.size is not None:
            cases = tuple(case for case in scenario.cases if case.size_bytes == arguments.size * MIB)
            scenario = dataclasses.replace(scenario, cases=cases)
        names = tuple(name for name in scenario.contenders if name in (arguments.contenders or scenario.contenders))
        if arguments.other_build is not None:
            names = roster.with_other_build(names, arguments.control)
        scenario = dataclasses.replace(scenario, contenders=names)
        if not scenario.cases or not names:
            continue
        print(f"{part.name}: {scenario.name}", flush=True)
        report["scenarios"].append(run_scenario(scenario, settings, lambda line: print(line, flush=True)))
    if not report["scenarios"]:
        raise HostError(f"nothing of {part.name} fits --only, --size and --contenders")
    arguments.output.mkdir(parents=True, exist_ok=True)
    base.with_suffix(".json").write_text(json.dumps(report) + "\n")
    base.with_suffix(".svg").write_text(page.chart(report))
    text = page.markdown(report)
    base.with_suffix(".md").write_text(text)
    print(f"\n{text}\nwritten: {base}.json, .md and .svg", flush=True)
    entries = [
        entry for scenario in report["scenarios"] for case in scenario["cases"] for entry in case["contenders"].values()
    ]
    return all(entry["wrong"] == 0 for entry in entries)


def main() -> int:
    arguments = parse_arguments()
    if os.geteuid() != 0:
        print("bench: making network namespaces needs root: sudo make bench", file=sys.stderr)
        return 1
    # As an exception, so that everything is cleaned up on the way out.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _frame: sys.exit(128 + caught))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background deaf to it
    if count := clean_left_over():
        print(f"bench: ended {count} processes that an earlier run had left", file=sys.stderr)
    right = True
    for part in PARTS:
        if part.name in (arguments.parts or [part.name]):
            right = run_part(part, arguments) and right
    if scale_model.NAME in (arguments.parts or [scale_model.NAME]):
        run_model(arguments)
    if gpu_nodes.NAME in (arguments.parts or [gpu_nodes.NAME]):
        run_gpu_nodes(arguments)
    if gpt_training.NAME in (arguments.parts or [gpt_training.NAME]):
        run_gpt_training(arguments)
    if survival.NAME in (arguments.parts or [survival.NAME]):
        right = run_survival(arguments) and right
    return 0 if right else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HostError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
