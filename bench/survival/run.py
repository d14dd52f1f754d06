"""The part `survive` of bench/run.py: one training undisturbed, then again under each kind of fault."""

import dataclasses
import json
import pathlib
import statistics
import sys
import time

import machine
from hosts.node import HostError

from survival import findings, page
from survival.cluster import Cluster, Shape, Training
from survival.faults import RollingRestart, SchedulerAway, even_steps, random_kills

NAME = "survive"
TITLE = "Training while servers and the scheduler are killed"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """How much is done to the cluster."""

    kills: int = 100
    rolling_restarts: int = 10
    away_s: float = 60
    seed: int = 1
    limit_s: float = 1800  # for each run


def find_text(root: pathlib.Path) -> pathlib.Path:
    """What `make demo` trains on. HostError if it can't be had."""
    sys.path.insert(0, str(root / "examples"))
    import demo

    demo.OUTPUT.mkdir(parents=True, exist_ok=True)
    try:
        return demo.corpus()
    except demo.DemoError as error:
        raise HostError(str(error)) from None


def steps_before_the_last_fault(shape: Shape, faults: list) -> int:
    """How many steps the training may do until its last fault begins. HostError if that leaves none for the fault."""
    if not faults:
        return shape.steps
    last = faults[-1]
    if any(getattr(fault, "steps", 0) for fault in faults[:-1]):
        raise HostError("only the last fault may wait for steps: the training may be held until that one begins")
    steps_after = 1 + getattr(last, "steps", 0)  # the step that is struck, and those the fault waits for
    allowed = shape.steps - 1 - steps_after
    at_step = max(fault.at_step for fault in faults)
    if at_step > allowed:
        raise HostError(f"a fault at step {at_step} needs {steps_after} more steps, and the training has {shape.steps}")
    return allowed


def train(root: pathlib.Path, programs: pathlib.Path, shape: Shape, faults: list, limit_s: float, say) -> dict:
    """Trains on a cluster of its own and strikes it with the faults, one after the other. On a machine where the faults
    take longer than the steps, the training is held near its end until the last fault is over; `held` says whether it
    was.

    HostError if the training fails, or a fault comes too late for it."""
    text = find_text(root)
    allowed_steps = steps_before_the_last_fault(shape, faults)
    with shape.make_network() as network, Cluster(programs, network, shape) as cluster:
        cluster.begin()
        training = Training(cluster, text, limit_s, allowed_steps)
        struck = []
        held = False
        for number, fault in enumerate(faults, start=1):
            training.wait_for_step(fault.at_step)
            if number == len(faults):
                held = training.read_steps_done() >= allowed_steps
                training.allow_steps(shape.steps - 1)
            struck.append({"at_step": fault.at_step} | fault.strike(cluster, training))
            if number % 10 == 0 or number == len(faults):
                say(f"  {number} of {len(faults)} faults, step {training.steps_done} of {shape.steps}")
        held = held or bool(faults) and training.read_steps_done() >= shape.steps - 1
        training.allow_steps(shape.steps)
        summary = training.finish()
        events = cluster.events()
    kept = ("losses", "digests", "step_ended_at", "all_reduce_seconds", "all_reduce_ended_at", "all_reduce_bytes")
    counts: dict[str, int] = {}
    for event in events:
        counts[event["kind"]] = counts.get(event["kind"], 0) + 1
    opened = [event["reason"] for event in events if event["kind"] == "group-opened"]
    return {name: summary[name] for name in kept} | {
        "faults": struck,
        "held": held,
        "events": counts,
        "opened": opened,
    }


def measure(root: pathlib.Path, programs: pathlib.Path, shape: Shape, wanted: Wanted, keep, say) -> dict:
    """The runs by their names; `keep` is given those that there are after each. HostError if one fails."""
    runs = {}

    def run_one(name: str, faults: list) -> None:
        say(f"{NAME}: {name}")
        runs[name] = train(root, programs, shape, faults, wanted.limit_s, say)
        if runs[name]["held"]:  # and would be charged with what this machine took for the faults
            raise HostError(f"the training waited for its faults ({name}): give it more --steps")
        keep(runs)
        took_s = sum(findings.step_times_s(runs[name]))
        same = runs[name]["digests"] == runs["undisturbed"]["digests"]
        say(f"  {shape.steps} steps in {took_s:.0f} s, {'the same weights' if same else 'OTHER WEIGHTS'}")

    run_one("undisturbed", [])
    step_s = statistics.median(findings.step_times_s(runs["undisturbed"]))
    run_one("kills", random_kills(wanted.kills, shape, step_s, wanted.seed))
    run_one("rolling restarts", [RollingRestart(step) for step in even_steps(wanted.rolling_restarts, shape)])
    run_one("scheduler away", [SchedulerAway(shape.steps // 3, wanted.away_s)])
    return runs


def conclude(runs: dict, shape: Shape) -> dict:
    undisturbed = runs["undisturbed"]
    steps_s = findings.step_times_s(undisturbed)
    step_s = statistics.median(steps_s)
    away = runs["scheduler away"]
    [absence] = away["faults"]
    # The same stretch of the undisturbed run, for what the machine itself does to the slowest ops.
    pretended_at = undisturbed["step_ended_at"][absence["at_step"] - 1]
    pretended = {"began_at": pretended_at, "ended_at": pretended_at + absence["ended_at"] - absence["began_at"]}
    return {
        "same_weights": {name: run["digests"] == undisturbed["digests"] for name, run in runs.items()},
        "ranks_agree": len(set(undisturbed["digests"])) == 1,
        "layout_as_asked": any(" rails x " in text for text in undisturbed["opened"]) == shape.has_rails,
        "step_s": findings.distribution(steps_s),
        "added_by_a_kill_s": findings.distribution(findings.added_by_each_kill_s(runs["kills"], step_s)),
        "added_in_all_s": {name: findings.added_in_all_s(run, undisturbed) for name, run in runs.items()},
        "step_of_rolling_restarts_s": findings.distribution(findings.step_times_s(runs["rolling restarts"])),
        "restarts_s": findings.distribution(
            [f["ended_at"] - f["began_at"] for f in runs["rolling restarts"]["faults"]]
        ),
        "ops_around_absence": findings.ops_around(away, absence),
        "ops_around_no_absence": findings.ops_around(undisturbed, pretended),
        "all_reduces": len(undisturbed["all_reduce_seconds"]),
        "bytes_a_step": undisturbed["all_reduce_bytes"] / shape.steps,
    }


def is_right(found: dict) -> bool:
    return found["ranks_agree"] and found["layout_as_asked"] and all(found["same_weights"].values())


def run(root: pathlib.Path, programs: pathlib.Path, output: pathlib.Path, started, command: str, options, say) -> bool:
    """Whether all weights were the same. `options`: those of bench/run.py for this part. HostError if a run fails."""
    shape = Shape(nodes=options.nodes, steps=options.steps)
    wanted = Wanted(options.kills, options.rolling_restarts, options.away_seconds, options.seed)
    report = machine.begin_report(NAME, TITLE, started, command, root) | {
        "shape": dataclasses.asdict(shape),
        "wanted": dataclasses.asdict(wanted),
    }
    base = output / f"{NAME}{'-rails' if shape.has_rails else ''}_{started:%Y-%m-%d}"
    output.mkdir(parents=True, exist_ok=True)

    def keep(runs: dict) -> None:
        # A later run that fails does not take the earlier ones with it.
        base.with_suffix(".json").write_text(json.dumps(report | {"runs": runs}) + "\n")

    began_at = time.monotonic()
    report["runs"] = measure(root, programs, shape, wanted, keep, say)
    report["took_s"] = time.monotonic() - began_at
    report["found"] = conclude(report["runs"], shape)
    base.with_suffix(".json").write_text(json.dumps(report) + "\n")
    text = page.markdown(report)
    base.with_suffix(".md").write_text(text)
    say(f"\n{text}\nwritten: {base}.json and .md")
    return is_right(report["found"])
