#!/usr/bin/env python3
"""Runs many seeds of the deterministic simulator, on all cores, and writes what they came to.

`make soak SCHEDULES=100000`, after a build; `scripts/soak.py 100000 --first 1`. Results: sim/results/soak_DATE.json and
.md (and a line on standard output for each seed that failed). Exit status 1 if a check failed anywhere.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "bin" / "shoal-sim"
# What a large number of schedules has to have tried: each pair of kinds of faults so often that the second began before
# the first was over; and in how many of a hundred runs of jobs a check may have been told to look away.
SCHEDULES_FOR_PAIRS = 100_000
LEAST_MEETINGS = 20
MOST_EXCUSED_PERCENT = 5
# Of each of these as many as of each pair.
MEETINGS_OF_GROUPS = {
    "hellos_to_ended_groups": "hellos to a server where the group had ended",
    "reports_without_move": "reports of a server that moved nothing",
    "deaths_while_gathering": "deaths while a chunk was gathered after a move",
    "open_runs": "runs of open jobs",
    "ops_with_fewer": "all-reduces there with fewer ranks than their group has",
    "ops_with_mixed": "with fewer in some chunks alone",
    "ops_without_nodes": "of these two, without whole nodes",
    "ops_left_alone": "all-reduces that ended because another rank of the node was gone",
    "ops_written_down": "whose contributors a rank had written down",
}
SEEDS_PER_BATCH = 500  # a batch is one process: what a crash can take along, and how often progress is said


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def machine() -> str:
    model = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {os.cpu_count()} cores"


class Batch:
    """A range of seeds in a process of its own."""

    def __init__(self, first: int, count: int, folder: pathlib.Path):
        self.first, self.count = first, count
        self.report = folder / f"{first}.json"
        command = [PROGRAM, "--first", str(first), "--count", str(count), "--report", self.report]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self) -> dict:
        """What the seeds came to; a crash is a violation of its seed, and the rest of the batch counts as not run."""
        output, _ = self.process.communicate()
        for line in output.splitlines():
            if "FAILED" in line:
                print(line, flush=True)
        if self.process.returncode in (0, 1) and self.report.is_file():
            return json.loads(self.report.read_text(encoding="utf-8"))
        last = output.strip().splitlines()[-1] if output.strip() else f"status {self.process.returncode}, no output"
        return {"first": self.first, "violations": [{"seed": self.first, "what": f"in a batch from here: {last}"}]}


def run(first: int, count: int, processes: int) -> tuple[dict, float]:
    """The sum of all batches, and the wall-clock seconds that they took."""
    total: dict = {"faults": {}, "excuses": {}, "meetings": {}, "violations": []}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        starts = list(range(first, first + count, SEEDS_PER_BATCH))
        running: list[Batch] = []
        while starts or running:
            while starts and len(running) < processes:
                at = starts.pop(0)
                running.append(Batch(at, min(SEEDS_PER_BATCH, first + count - at), pathlib.Path(folder)))
            add(total, running.pop(0).finish())
            seconds = time.monotonic() - started
            print(
                f"{total.get('seeds', 0)} of {count} schedules, {len(total['violations'])} violations, {seconds:.0f} s",
                flush=True,
            )
    return total, time.monotonic() - started


def add(total: dict, batch: dict) -> None:
    for key, value in batch.items():
        if key in ("faults", "excuses"):
            for kind, times in value.items():
                total[key][kind] = total[key].get(kind, 0) + times
        elif key == "meetings":
            for first, seconds in value.items():
                for second, phases in seconds.items():
                    sums = total["meetings"].setdefault(first, {}).setdefault(second, [0] * len(phases))
                    sums[:] = [a + b for a, b in zip(sums, phases, strict=True)]
        elif key == "violations":
            total["violations"].extend(value)
        elif key != "first":
            total[key] = total.get(key, 0) + value


def row(kind: str, times: int, seconds: dict[str, list[int]]) -> str:
    second, phases = min(seconds.items(), key=lambda item: sum(item[1]))
    by_phase = [sum(counts) for counts in zip(*seconds.values(), strict=True)]
    return f"| {kind} | {times} | {second} | {sum(phases)} | " + " | ".join(map(str, by_phase)) + " |"


def shortcomings(total: dict) -> list[str]:
    """What the schedules did not try well enough, if there were enough of them to say."""
    found = []
    for check, runs in total["excuses"].items():
        if 100 * runs >= MOST_EXCUSED_PERCENT * total["runs"]:
            found.append(f"the check of {check} looked away in {runs} of {total['runs']} runs of jobs")
    if total.get("seeds", 0) >= SCHEDULES_FOR_PAIRS:
        for key, what in MEETINGS_OF_GROUPS.items():
            if total.get(key, 0) < LEAST_MEETINGS:
                found.append(f"there were only {total.get(key, 0)} {what}")
        for first, seconds in total["meetings"].items():
            for second, phases in seconds.items():
                if sum(phases) < LEAST_MEETINGS:
                    found.append(f"{second} began only {sum(phases)} times while {first} was not over")
    return found


def write(total: dict, first: int, count: int, wall_seconds: float, command: str) -> pathlib.Path:
    today = datetime.date.today().isoformat()
    changed = [line for line in git("status", "--porcelain").splitlines() if "sim/results/" not in line]
    tree = git("rev-parse", "HEAD") + (" with uncommitted changes" if changed else "")
    cost_ms = 1000 * total.get("cpu_seconds", 0) / max(total.get("seeds", 0), 1)
    data = {
        "date": today,
        "command": command,
        "tree": tree,
        "machine": machine(),
        "first_seed": first,
        "last_seed": first + count - 1,
        "wall_seconds": round(wall_seconds, 1),
        "cpu_ms_per_schedule": round(cost_ms, 2),
        **total,
    }
    report = ROOT / "sim" / "results" / f"soak_{today}.md"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    violations = total["violations"]
    lines = [
        f"# {count} simulated schedules, {today}",
        "",
        f"`{command}` on {tree}; {data['machine']}.",
        "",
        f"- Seeds {first} to {first + count - 1}: **{len(violations)} violations**.",
        f"- {cost_ms:.2f} ms of CPU for each schedule; {wall_seconds / 60:.1f} minutes in all.",
        f"- {total.get('ops_ok', 0)} all-reduces told their right result to a rank, {total.get('ops_failed', 0)} ended "
        "with an error, as they should.",
        f"- {total.get('virtual_seconds', 0) / 3600:.0f} hours of virtual time, {total.get('events', 0)} events; "
        f"{total.get('refusals', 0)} messages refused, {total.get('hand_overs', 0)} results handed over after a move, "
        f"{total.get('preemptions', 0)} pushes preempted, {total.get('loans', 0)} payloads lent.",
        "- " + ", ".join(f"{total.get(key, 0)} {what}" for key, what in MEETINGS_OF_GROUPS.items()) + ".",
        "",
        f"- Checks that looked away, of {total.get('runs', 0)} runs of jobs: "
        + ", ".join(f"{check} in {runs}" for check, runs in total["excuses"].items())
        + ".",
        "",
        "How often each fault happened; the pair with a second fault that began least often before the first was over;"
        " and how often a second fault began while nobody had noticed the first, it was noticed, a group had moved"
        " for it and had not worked since, it went on while the groups worked, or what it had taken was coming back.",
        "",
        "| fault | times | least often followed by | times | unnoticed | noticed | settling | going on | healing |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
        *(row(kind, times, total["meetings"][kind]) for kind, times in total["faults"].items()),
    ]
    for what in shortcomings(total):
        lines += ["", f"**Too little was tried**: {what}."]
    if violations:
        lines += ["", "Violations (replay: `build/bin/shoal-sim --seed N`):", ""]
        lines += [f"- seed {violation['seed']}: {violation['what']}" for violation in violations[:50]]
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", nargs="?", type=int, default=10_000, help="how many seeds (10000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="at a time (one a core)")
    options = parser.parse_args()
    if options.schedules < 1 or options.processes < 1:
        sys.exit("soak: schedules and processes have to be positive numbers")
    if not PROGRAM.is_file():
        sys.exit(f"soak: there is no {PROGRAM}; `make build` makes it")
    total, seconds = run(options.first, options.schedules, options.processes)
    command = (
        f"make soak SCHEDULES={options.schedules}"
        if options.first == 1
        else " ".join(["scripts/soak.py", *sys.argv[1:]])
    )
    report = write(total, options.first, options.schedules, seconds, command)
    print(f"written: {report.relative_to(ROOT)}")
    for what in shortcomings(total):
        print(f"too little was tried: {what}")
    sys.exit(1 if total["violations"] or shortcomings(total) else 0)


if __name__ == "__main__":
    main()
