#!/usr/bin/env python3
"""What rounding on the wire costs in training: the digits and the GPT example with float32, bf16, int8 and fp8, these
with error feedback too, from several seeds each.

`bench/wire_accuracy.py` after `make build`; an hour. Four ranks, whose gradients an in-process server sums.
Nothing is timed, so others may be busy on this machine. Writes bench/results/wire-accuracy_DATE.json, a page and a
picture of the losses. Exit status 1 if the loss of a wire is outside of float32's own seeds by more than their spread.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests"), str(ROOT / "bench")]

import demo
from fabric_model.line_chart import line_chart
from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
NAME = "wire-accuracy"
TITLE = "What rounding on the wire costs in training"
RANKS = 4
WIRES = {
    "float32": {"SHOAL_WIRE": "none"},
    "bf16": {"SHOAL_WIRE": "bf16"},
    "int8": {"SHOAL_WIRE": "int8"},
    "int8 with error feedback": {"SHOAL_WIRE": "int8", "SHOAL_ERROR_FEEDBACK": "1"},
    "fp8": {"SHOAL_WIRE": "fp8"},
    "fp8 with error feedback": {"SHOAL_WIRE": "fp8", "SHOAL_ERROR_FEEDBACK": "1"},
}
LAST = 0.1  # of the steps, whose mean loss is the loss of a run


def train(example: str, steps: int, wire: str, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        summary = pathlib.Path(folder) / "summary.json"
        options = ["--seed", str(seed), "--summary", str(summary)]
        if example == "gpt":
            options += ["--text", str(demo.corpus()), "--steps", str(steps), "--report-every", str(steps)]
            options += ["--width", "96", "--layers", "3", "--context", "48", "--bucket-mib", "1"]
        else:
            options += ["--epochs", str(steps // 25)]  # of 25 batches
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        script = ROOT / "examples" / f"train_{example}.py"
        subprocess.run(
            [*launch, f"--nproc-per-node={RANKS}", str(script), *options],
            env=os.environ | {"OMP_NUM_THREADS": "1", "SHOAL_NODE_REDUCE": "off"} | WIRES[wire],
            stdout=subprocess.DEVNULL, check=True, timeout=1200,
        )  # fmt: skip
        return json.loads(summary.read_text())


def loss_of(run: dict) -> float:
    return statistics.mean(run["losses"][-max(1, round(LAST * len(run["losses"]))) :])


def smooth(losses: list[float], pieces: int = 40) -> list[tuple[float, float]]:
    """Means of pieces of the run, by the number of their last step."""
    length = max(1, len(losses) // pieces)
    return [
        (end, statistics.mean(losses[end - length : end])) for end in range(length, len(losses) + 1, length)
    ]  # fmt: skip


def difference_text(losses: list[float], plain: list[float]) -> str:
    return f"{statistics.mean(losses) - statistics.mean(plain):+.4f}"


def is_within(losses: list[float], plain: list[float]) -> bool:
    spread = max(plain) - min(plain)
    return min(plain) - spread <= statistics.mean(losses) <= max(plain) + spread


def page_of(report: dict) -> str:
    lines = [f"# {TITLE}", "", measured_by(report), ""]
    lines += [
        f"{RANKS} ranks in DistributedDataParallel; a server sums the gradients in float32. The loss of a run is the"
        f" mean of its last {LAST:.0%} of steps. In brackets the least and the most of the seeds.",
        "",
        f"![losses]({NAME}_{report['started_at'].partition('T')[0]}.svg)",
        "",
    ]
    for example, of_wire in report["runs"].items():
        plain = [loss_of(run) for run in of_wire["float32"]]
        steps, seeds = len(of_wire["float32"][0]["losses"]), len(plain)
        lines += [f"## {example}: {steps} steps, {seeds} seeds", ""]
        lines += ["| wire | loss | to float32 | right of other images |", "|---|---:|---:|---:|"]
        for wire, runs in of_wire.items():
            losses = [loss_of(run) for run in runs]
            right = [run["accuracy"] for run in runs if "accuracy" in run]
            read = f"{100 * statistics.mean(right):.1f} %" if right else ""
            lines.append(
                f"| {wire} | {statistics.mean(losses):.4f} ({min(losses):.4f} to {max(losses):.4f}) |"
                f" {difference_text(losses, plain)} | {read} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--digits-steps", type=int, default=150)
    parser.add_argument("--gpt-steps", type=int, default=300)
    options = parser.parse_args()
    command = " ".join(["bench/wire_accuracy.py", *sys.argv[1:]])
    report = begin_report(NAME, TITLE, datetime.datetime.now(datetime.UTC), command, ROOT)
    demo.OUTPUT.mkdir(parents=True, exist_ok=True)
    report["runs"] = {}
    for example, steps in (("digits", options.digits_steps), ("gpt", options.gpt_steps)):
        of_wire = report["runs"][example] = {wire: [] for wire in WIRES}
        for seed in range(1, options.seeds + 1):
            for wire, runs in of_wire.items():
                runs.append(train(example, steps, wire, seed))
                print(f"{example} seed {seed} {wire}: loss {loss_of(runs[-1]):.4f}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    write_result(report, page_of(report), RESULTS)
    lines = {wire: smooth(runs[0]["losses"]) for wire, runs in report["runs"]["gpt"].items()}
    chart = line_chart(TITLE, "loss of the GPT example by step, seed 1", lines, [])
    (RESULTS / f"{NAME}_{report['started_at'].partition('T')[0]}.svg").write_text(chart)
    outside = [
        f"{example} with {wire}"
        for example, of_wire in report["runs"].items()
        for wire, runs in of_wire.items()
        if not is_within([loss_of(run) for run in runs], [loss_of(run) for run in of_wire["float32"]])
    ]
    print(*(f"outside of float32's seeds: {each}" for each in outside), sep="\n")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
