"""The result of a run as a record (JSON) and as a page that people read (Markdown)."""

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import subprocess
from collections import Counter

from chaos import schedule
from chaos.experiment import Outcome
from chaos.fault import kinds_for
from chaos.findings import (
    AFTER_MISJUDGED, ALLOWED, FENCED, MIXED_OPS, NOT_JUDGED, OPEN_RANKS_DIED, OPEN_RANKS_LEFT, REJOINED, SMALLER_OPS,
)  # fmt: skip
from chaos.pairs import Phases, count_pairs
from chaos.schedule import SCHEDULES
from chaos.world import REASONS
from hosts.cluster import ROOT
from hosts.page import page_text

RESULTS = pathlib.Path(__file__).with_name("results")
PHASES = ("noticing", "settling", "open", "healing")
MAXIMA = ("longest_pause_s", "longest_after_kill_s", "worst_noise_s")  # of runs, which all but the oldest have


def git_commit() -> str:
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> str:
    model = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def make_record(outcome: Outcome, command: str, commit: str, machine_name: str) -> dict:
    shape = outcome.schedule.shape
    kinds = [kind.name for kind in kinds_for(shape)]
    pairs = count_pairs(outcome.incidents, Phases.of_lease(shape.lease_s))
    return {
        "command": command,
        "commit": commit,
        "machine": machine_name,
        "seed": outcome.schedule.seed,
        "kinds": dict(sorted(Counter(incident.kind for incident in outcome.incidents).items())),
        "pairs": [[*pair, count] for pair, count in sorted(pairs.items())],
        "pairs_never_met": [[one, other] for one in kinds for other in kinds if not met(pairs, one, other)],
        "violations": [dataclasses.asdict(violation) for violation in outcome.violations],
        "allowed": dict(Counter(reason_of(why) for _, why, _ in outcome.allowed)),
        "counts": outcome.counts,
        "void": outcome.void,
        "moves": outcome.moves,
        "memory_mib": outcome.memory,
        "longest_pause_s": outcome.longest_pause_s,
        "longest_after_kill_s": outcome.longest_after_kill_s,
        "pauses": outcome.pauses,
        "wall_s": outcome.wall_s,
        "cpu_s": outcome.cpu_s,
        "worst_noise_s": outcome.worst_noise_s,
        "schedule": schedule.to_document(outcome.schedule),
    }


def reason_of(why: str) -> str:
    """The clause that allowed a failure; of a lost rank, for which reason it might be lost."""
    clause, *rest = why.split(": ")
    reason = next((part for part in rest if part in REASONS), "")
    return f"{clause}: {reason}" if reason else clause


def met(pairs: dict[tuple[str, str, str], int], one: str, other: str) -> int:
    return sum(pairs.get((one, other, phase), 0) for phase in PHASES)


def together(records: list[dict]) -> dict:
    """What several runs, of different seeds or shapes, came to, as if they were one."""
    summed: dict[str, Counter] = {name: Counter() for name in ("kinds", "counts", "allowed", "pauses")}
    pairs: Counter[tuple[str, str, str]] = Counter()
    memory: dict[str, dict[str, float]] = {}
    for record in records:
        for name, counter in summed.items():
            counter.update(record[name])
        pairs.update({tuple(pair): count for *pair, count in record["pairs"]})
        for role, values in record["memory_mib"].items():
            most = memory.setdefault(role, dict.fromkeys(values, 0.0))
            for name, value in values.items():
                most[name] = max(most[name], value)
    never = [{tuple(pair) for pair in record["pairs_never_met"]} for record in records]
    possible = {pair for each in never for pair in each} | {(one, other) for one, other, _ in pairs}
    return {
        **{name: dict(sorted(counter.items())) for name, counter in summed.items()},
        "pairs": [[*pair, count] for pair, count in sorted(pairs.items())],
        "pairs_never_met": sorted(pair for pair in possible if not met(pairs, *pair)),
        "memory_mib": memory,
        "violations": [violation for record in records for violation in record["violations"]],
        **{name: sum(record[name] for record in records) for name in ("void", "moves", "wall_s", "cpu_s")},
        **{name: max(record.get(name, 0.0) for record in records) for name in MAXIMA},
    }


def page(records: list[dict]) -> str:
    record = together(records)
    counts = record["counts"]
    lines = [
        "# Chaos on the real programs",
        "",
        f"- {counts.get('faults', 0)} faults in {duration_text(record['wall_s'])}:"
        f" **{len(record['violations'])} violations**.",
        f"- {counts.get('ops', 0)} all-reduces, each compared with an independent sum; {counts.get('groups', 0)} groups"
        " made"
        f" and closed; {counts.get('bytes', 0) / 2**30:.1f} GiB.",
        f"- {counts.get(ALLOWED, 0)} calls failed as docs/failover.md says;"
        f" {counts.get(NOT_JUDGED, 0)} were not judged, since a program got no processor. Jobs were started again"
        f" {counts.get('job starts', 0)} times, groups moved {record['moves']} times. The longest pause of a group was"
        f" {record['longest_pause_s']:.1f} s.",
        f"- {record['cpu_s'] / record['wall_s']:.2f} processors were used; this program was late by"
        f" {record['worst_noise_s']:.2f} s at most.",
        "",
        "## Runs",
        "",
        *table(
            ["`tests/chaos/run.py` with", "minutes", "faults", "violations", "date", "commit", "machine"],
            [
                [
                    f"`{run['command']}`",
                    f"{run['wall_s'] / 60:.1f}",
                    str(run["counts"].get("faults", 0)),
                    str(len(run["violations"])),
                    run["date"],
                    run["commit"][:10],
                    run["machine"],
                ]
                for run in records
            ],
        ),
        *[line for run in records if "note" in run for line in ("", f"`{run['command']}`: {run['note']}")],
        "",
        *open_job_lines(record),
        "## Faults",
        "",
        *table(["fault", "times"], [[kind, str(count)] for kind, count in record["kinds"].items()]),
        "",
        *pair_lines(record),
        "",
        "## What failed, and why it was allowed to",
        "",
        "A lost rank had ended, stood still, or was not heard, or no scheduler was there until the servers gave it up"
        ' ("not survived"); `docs/failover.md` has the clauses. Counted are calls, of all ranks that heard of it.'
        " Not judged, since another failure of the job that was not judged"
        f" or not allowed came before: {counts.get(AFTER_MISJUDGED, 0)}.",
        "",
        *table(["clause", "calls"], [[clause, str(count)] for clause, count in record["allowed"].items()]),
        "",
        "## Memory",
        "",
        f"Of runs that counted them, {counts.get('processes whose memory was judged', 0)} of"
        f" {counts.get('processes', 0)} processes lived long enough for growth to be told from warming up.",
        "",
        *table(
            ["memory of", "most (MiB)", "most growth after warming up (MiB)"],
            [
                [role, *(f"{values[name]:.0f}" for name in ("most_mib", "most_growth_mib"))]
                for role, values in sorted(record["memory_mib"].items())
            ],
        ),
        "",
        *violation_lines(record),
        *finding_lines(),
    ]
    return page_text(lines).rstrip() + "\n"


def open_job_lines(record: dict) -> list[str]:
    counts = record["counts"]
    return [
        "## Ranks of open jobs",
        "",
        "Their groups go on without lost ranks (F22 to F24).",
        "",
        f"- {counts.get(OPEN_RANKS_DIED, 0)} were killed, {counts.get(FENCED, 0)} were taken for lost while they lived,"
        f" {counts.get(OPEN_RANKS_LEFT, 0)} left in good order; {counts.get(REJOINED, 0)} times one joined again.",
        f"- {counts.get(SMALLER_OPS, 0)} all-reduces ended with the sum of fewer ranks than their group has;"
        f" {counts.get(MIXED_OPS, 0)} of them without a rank in some chunks alone. Each chunk was compared with the"
        " sums over all rosters, and a rank that was missing had to be one that might be lost. All ranks that had done"
        " a group's ops had the same bits.",
        f"- Where nothing but ranks had been killed, such an all-reduce took {record['longest_after_kill_s']:.2f} s at"
        " most.",
        "",
    ]


def duration_text(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} hours"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    marks = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(row) + " |" for row in (head, marks, *rows)]


def pair_lines(record: dict) -> list[str]:
    """A row for each kind that began first, a column for each that came to it."""
    pairs = {(one, other, phase): count for one, other, phase, count in record["pairs"]}
    kinds = list(record["kinds"])
    rows = [[one, *(str(met(pairs, one, other)) for other in kinds)] for one in kinds]
    phases = Counter()
    for (_, _, phase), count in pairs.items():
        phases[phase] += count
    never = record["pairs_never_met"]
    return [
        "## Which faults met",
        "",
        "How often the second (column) began while the first (row) was open or healing. By the phase of the first: "
        + ", ".join(f"{phases[phase]} {phase}" for phase in PHASES)
        + f". {len(never)} pairs of kinds never met.",
        "",
        *table(["", *kinds], rows),
    ]


def violation_lines(record: dict) -> list[str]:
    if not record["violations"]:
        return []
    lines = ["## Violations", ""]
    for violation in record["violations"]:
        first = violation["text"].split("\n", 1)[0]
        open_then = "; ".join(violation["open_faults"])
        lines.append(f"- {violation['at_s']:.1f} s, {violation['kind']}: {first} (open: {open_then})")
        if "came_of_it" in violation:  # written into the record by whoever looked into it
            lines.append(f"  {violation['came_of_it']}")
    return lines


def finding_lines() -> list[str]:
    """What was found here and mended: each is a written schedule."""
    rows = []
    for path in sorted(SCHEDULES.glob("*.json")):
        written = schedule.load(path)
        rows.append([f"[{written.name}](../schedules/{path.name})", written.clause, written.simulator])
    return [
        "## What was found",
        "",
        "Each was found on real programs and mended; the schedule says what happened. `make test-long` runs them. Seeds"
        " of the simulator find the same, as the deliberate bug that is named shows, or there is the reason why they"
        " can't.",
        "",
        *table(["schedule", "clause of failover.md", "found by the simulator"], rows),
        "",
    ]


def write(outcome: Outcome, folder: pathlib.Path, command: str) -> str:
    """The record of this run, and the page of all runs whose records are in the folder. Says where that is."""
    records = folder / "records"
    records.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    record = {"date": now.date().isoformat(), **make_record(outcome, command, git_commit(), machine())}
    name = f"{now.strftime('%Y-%m-%d_%H-%M')}_seed{outcome.schedule.seed}.json"
    (records / name).write_text(json.dumps(record) + "\n", encoding="utf-8")
    every = [json.loads(each.read_text(encoding="utf-8")) for each in sorted(records.glob("*.json"))]
    (folder / "chaos.md").write_text(page(every), encoding="utf-8")
    return f"results in {folder / 'chaos.md'}, of {len(every)} runs"
