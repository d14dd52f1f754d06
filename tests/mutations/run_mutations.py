#!/usr/bin/env python3
"""Builds the product with one deliberate bug at a time (mutations.py) and says what finds it: a seed of `make test` in
the simulator, or the test that the bug names.

Fails if a bug is not found, and says which. Writes sim/results/mutations_DATE.json and .md; of a part of the bugs
mutations_PART_DATE. Works on a copy of the sources in build/mutants, so nothing of the checkout is touched. `make
mutants`; half an hour on two cores for the simulator's part, nearly as long for `PART=device`, minutes for
`PART=node`. What was tried on the same sources is not tried again, so an interrupted run goes on where it was.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

from mutation import ROOT, Mutation
from mutations import MUTATIONS, PARTS
from one_test import run_test, targets_of
from tree import TREE, build, copy_sources, with_bug

PROGRAM = TREE / "build" / "bin" / "shoal-sim"
SECONDS_PER_BATCH = 600
SEEDS_PER_BATCH = 25
ENOUGH_SEEDS = 10  # that find a bug: no more are looked for


# ---- the simulator ----


def fixed_seeds() -> int:
    text = (ROOT / "sim" / "profile.h").read_text(encoding="utf-8")
    return int(re.search(r"kFixedSeeds = (\d+);", text).group(1))


def failures(first: int, count: int) -> list[tuple[int, str]]:
    """The seeds of a range that fail, and what failed first in each."""
    found: list[tuple[int, str]] = []
    end = first + count
    while first < end:
        command = [PROGRAM, "--first", str(first), "--count", str(end - first)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS_PER_BATCH)
        lines = re.findall(r"^seed (\d+) FAILED: (.*?)(?: \(replay: .*\))?$", done.stdout, re.MULTILINE)
        found += [(int(seed), what) for seed, what in lines]
        if done.returncode in (0, 1):
            break
        if not lines:
            raise RuntimeError(
                f"shoal-sim ended with status {done.returncode} and named no seed:\n{done.stdout}{done.stderr}"
            )
        first = found[-1][0] + 1  # that one crashed, and took the rest of the range with it
    return found


def try_seeds(jobs: int) -> dict:
    """Runs the fixed seeds, or the first of them if those are enough."""
    build(["shoal-sim"], jobs)
    found: list[tuple[int, str]] = []
    seeds = fixed_seeds()
    run = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        while run < seeds and len(found) < ENOUGH_SEEDS:
            firsts = range(run + 1, min(run + jobs * SEEDS_PER_BATCH, seeds) + 1, SEEDS_PER_BATCH)
            counts = [min(SEEDS_PER_BATCH, seeds + 1 - first) for first in firsts]
            for batch in threads.map(failures, firsts, counts):
                found += batch
            run += sum(counts)
    if not found:
        return {"found_by": None, "found_as": ""}
    first, what = found[0]
    return {"found_by": f"seed {first}; {len(found)} of {run} seeds find it", "found_as": what}


# ---- all bugs ----


def try_test(mutation: Mutation, jobs: int) -> dict:
    said = run_test(mutation.test, jobs)
    return {"found_by": f"`{mutation.test}`" if said else None, "found_as": said}


def try_mutation(mutation: Mutation, jobs: int) -> dict:
    with with_bug(mutation):
        try:
            outcome = try_seeds(jobs) if mutation.test is None else try_test(mutation, jobs)
        except SystemExit as stopped:
            sys.exit(f"{mutation.name}: {stopped}")
    return {"name": mutation.name, "breaks": mutation.breaks, **outcome}


class Tried:
    """What was tried already on the sources of a digest."""

    def __init__(self, kept_in: pathlib.Path, digest: str):
        self._kept_in = kept_in
        self._digest = digest
        self._outcomes: dict[str, dict] = {}
        if kept_in.is_file():
            kept = json.loads(kept_in.read_text(encoding="utf-8"))
            self._outcomes = kept["outcomes"] if kept["sources"] == digest else {}

    def get(self, name: str) -> dict | None:
        return self._outcomes.get(name)

    def keep(self, name: str, outcome: dict) -> None:
        self._outcomes[name] = outcome
        text = json.dumps({"sources": self._digest, "outcomes": self._outcomes})
        self._kept_in.write_text(text, encoding="utf-8")


def check_seeds_without_bugs(tried: Tried, jobs: int) -> None:
    outcome = tried.get("")
    if outcome is None:
        outcome = try_seeds(jobs)
        tried.keep("", outcome)
    if outcome["found_by"] is not None:
        sys.exit(f"{outcome['found_by']} without any bug put in: {outcome['found_as']}")


def check_tests_without_bugs(chosen: list[Mutation], tried: Tried, jobs: int) -> None:
    tests = {str(mutation.test): mutation.test for mutation in chosen if mutation.test is not None}
    if not tests:
        return
    build(sorted(set().union(*(targets_of(test) for test in tests.values()))), jobs)
    for name, test in tests.items():
        if tried.get(name) is not None:
            continue
        if said := run_test(test, jobs):
            sys.exit(f"{name} fails without any bug put in: {said}")
        tried.keep(name, {})


def describe_tree() -> str:
    """Before the sources are copied: by the end the checkout may be another one."""
    state = subprocess.run(
        ["git", "-C", str(ROOT), "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    return commit.stdout.strip() + (" with uncommitted changes" if state.stdout.strip() else "")


def write_results(results: list[dict], tree: str, part: str | None) -> pathlib.Path:
    today = datetime.date.today().isoformat()
    folder = ROOT / "sim" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"mutations_{part + '_' if part else ''}{today}.md"
    found = sum(result["found_by"] is not None for result in results)
    command = f"make mutants PART={part}" if part else "make mutants"
    lines = [
        f"# Deliberate bugs and what finds them, {today}",
        "",
        f"`{command}` on {tree}, {os.cpu_count()} cores, Linux {platform.release()}: {found} of {len(results)} found,"
        f" {len(results) - found} not.",
        "",
        f"Bugs that the simulator has to find are tried with the {fixed_seeds()} seeds of `make test`, in order, until"
        f" {ENOUGH_SEEDS} have found",
        "one; bugs of the path of CUDA tensors with one test of `make test`, on the simulated driver and the simulated",
        "NCCL; bugs of the reduction within a node with one on real shared memory.",
        "",
        "| bug | breaks | found by |",
        "|---|---|---|",
    ]
    for result in results:
        found_by = result["found_by"] or "**nothing**"
        lines.append(f"| {result['name']} | {result['breaks']} | {found_by} |")
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = {"date": today, "tree": tree, "mutations": results}
    report.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutations to try (all, and only then results are written)")
    parser.add_argument("--only", choices=PARTS, help="the part whose mutations are tried")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compile jobs (one a core)")
    options = parser.parse_args()
    part = PARTS[options.only] if options.only else MUTATIONS
    if unknown := set(options.names) - {mutation.name for mutation in part}:
        parser.error(f"there is no mutation {', '.join(sorted(unknown))}")
    chosen = [mutation for mutation in part if not options.names or mutation.name in options.names]
    tree = describe_tree()
    product, everything = copy_sources()
    tried_with_seeds = Tried(TREE / "tried_with_seeds.json", product)
    tried_with_tests = Tried(TREE / "tried_with_tests.json", everything)
    if any(mutation.test is None for mutation in chosen):
        check_seeds_without_bugs(tried_with_seeds, options.jobs)
    check_tests_without_bugs(chosen, tried_with_tests, options.jobs)
    results = []
    for mutation in chosen:
        started = time.monotonic()
        tried = tried_with_seeds if mutation.test is None else tried_with_tests
        result = tried.get(mutation.key())
        if result is None:
            result = try_mutation(mutation, options.jobs)
            tried.keep(mutation.key(), result)
        results.append(result)
        verdict = "NOT FOUND" if result["found_by"] is None else f"{result['found_by']}: {result['found_as']}"
        print(f"{mutation.name} ({time.monotonic() - started:.0f} s): {verdict}", flush=True)
    if not options.names:
        print(f"written: {write_results(results, tree, options.only).relative_to(ROOT)}")
    survivors = [result["name"] for result in results if result["found_by"] is None]
    if survivors:
        sys.exit(f"not found: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
