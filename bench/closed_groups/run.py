#!/usr/bin/env python3
"""A job makes and closes groups, one after the other, beside one that stays: does the hundred thousandth cost more?

`bench/closed_groups/run.py` after a build; about five minutes on two cores for 100000 groups. Two ranks, two servers
and a scheduler that keeps its state in a file. After each tenth it looks at the time that a group took, the memory of
every process and the size of the state. Writes bench/results/closed-groups_DATE.json and .md. Exit status 1 if time or
memory were not flat after the first tenth.
"""

import argparse
import datetime
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from hosts.cluster import Cluster
from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
NAME = "closed-groups"
TENTHS = 10
PATIENCE_S = 600.0  # for a tenth
# After the first tenth, in which allocators settle and tables get their size.
MOST_GROWTH_BYTES = 8 << 20
MOST_STATE_GROWTH_BYTES = 4096
MOST_SLOWDOWN = 1.25  # of the last three tenths against the three after the first; machines are shared


def measure(groups: int) -> list[dict]:
    """A line for each tenth."""
    with Cluster() as cluster:
        with tempfile.TemporaryDirectory() as folder:
            state = pathlib.Path(folder) / "state"
            processes = {"scheduler": cluster.start_scheduler("--state-file", str(state))}
            processes |= {f"server {name}": cluster.start_server(name) for name in ("alpha", "beta")}
            options = ["--churn", str(groups), "--min-servers", "2", "--rounds", "1"]
            ranks = cluster.start_ranks(2, *options)
            processes |= {f"rank {number}": rank for number, rank in enumerate(ranks)}
            lines = []
            began = time.monotonic()
            for tenth in range(1, TENTHS + 1):
                for rank in ranks:
                    rank.wait_for_line(f"^made and closed {groups * tenth // TENTHS} groups$", PATIENCE_S)
                now = time.monotonic()
                lines.append(
                    {
                        "groups": groups * tenth // TENTHS,
                        "us_per_group": (now - began) / (groups // TENTHS) * 1e6,
                        "state_bytes": state.stat().st_size,
                        "resident_bytes": {name: process.resident_bytes() for name, process in processes.items()},
                    }
                )
                began = now
                print(f"{lines[-1]['groups']} groups, {lines[-1]['us_per_group']:.0f} us each", flush=True)
            for rank in ranks:
                rank.wait_for_line("^digest ")
            return lines


def mean_us(lines: list[dict]) -> float:
    return sum(line["us_per_group"] for line in lines) / len(lines)


def slowdown(lines: list[dict]) -> float:
    return mean_us(lines[-3:]) / mean_us(lines[1:4])


def not_flat(lines: list[dict]) -> list[str]:
    first, last = lines[0], lines[-1]
    found = []
    if slowdown(lines) > MOST_SLOWDOWN:
        found.append(f"the last groups take {slowdown(lines):.2f} times as long as the first")
    for name, before in first["resident_bytes"].items():
        grown = last["resident_bytes"][name] - before
        if grown > MOST_GROWTH_BYTES:
            found.append(f"{name} has grown by {grown / 2**20:.1f} MiB")
    if last["state_bytes"] > first["state_bytes"] + MOST_STATE_GROWTH_BYTES:
        found.append(f"the state has grown from {first['state_bytes']} to {last['state_bytes']} bytes")
    return found


def page_of(report: dict) -> str:
    lines = report["lines"]
    names = list(lines[0]["resident_bytes"])
    verdict = "; ".join(report["not_flat"]) or "Time, memory and state stayed flat"
    head = ["groups", "us each", "state (bytes)", *(f"{name} (MiB)" for name in names)]
    rows = [
        [
            str(line["groups"]),
            f"{line['us_per_group']:.0f}",
            str(line["state_bytes"]),
            *(f"{line['resident_bytes'][name] / 2**20:.1f}" for name in names),
        ]
        for line in lines
    ]
    table = ["| " + " | ".join(row) + " |" for row in (head, ["---:"] * len(head), *rows)]
    return "\n".join(
        [
            "# Groups that are made and closed",
            "",
            measured_by(report),
            "",
            f"A job of two ranks made and closed {lines[-1]['groups']} groups, one after the other, beside one that"
            " stayed open, which it used in the end; two servers, a scheduler with its state in a file, one node."
            f" {verdict}. The last three tenths took {slowdown(lines):.2f} times as long for a group as the three"
            " after the first.",
            "",
            *table,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--groups", type=int, default=100_000, help="a multiple of ten (default %(default)s)")
    options = parser.parse_args()
    if options.groups < TENTHS or options.groups % TENTHS:
        parser.error(f"--groups {options.groups} is no multiple of {TENTHS}")
    started = datetime.datetime.now(datetime.UTC)
    command = f"bench/closed_groups/run.py --groups {options.groups}"
    report = begin_report(NAME, "Groups that are made and closed", started, command, ROOT)
    report["lines"] = measure(options.groups)
    report["not_flat"] = not_flat(report["lines"])
    write_result(report, page_of(report), RESULTS)
    print("\n".join(report["not_flat"]) or "flat")
    return 1 if report["not_flat"] else 0


if __name__ == "__main__":
    sys.exit(main())
