#!/usr/bin/env python3
"""Builds the simulator with one deliberate bug at a time (mutations.py) and says which seeds of `make test` find it.

Fails if a bug is not found, and says which. Writes sim/results/mutations_DATE.json and .md. Works on a copy of the
sources in build/mutants, so nothing of the checkout is touched. `make mutants`; half an hour on two cores. What was
tried on the same sources is not tried again, so an interrupted run goes on where it was.
"""

import argparse
import concurrent.futures
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from mutation import ROOT, Mutation
from mutations import MUTATIONS

TREE = ROOT / "build" / "mutants"
TRIED = TREE / "tried.json"
COMPILED = (".cc", ".h", ".proto", ".txt", ".cmake")
PROGRAM = TREE / "build" / "bin" / "shoal-sim"
SECONDS_PER_BATCH = 600
SEEDS_PER_BATCH = 25
ENOUGH_SEEDS = 10  # that find a bug: no more are looked for


def fixed_seeds() -> int:
    text = (ROOT / "sim" / "profile.h").read_text(encoding="utf-8")
    return int(re.search(r"kFixedSeeds = (\d+);", text).group(1))


def copy_sources() -> str:
    """Brings the copy up to date; what did not change keeps its time, so that little is compiled. A digest of what is
    compiled."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, names)):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if source.suffix in COMPILED and not name.startswith("tests/"):
            digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
    return digest.hexdigest()


def build(jobs: int) -> None:
    environment = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    if not (TREE / "build" / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "release"], cwd=TREE, env=environment, check=True, capture_output=True)
    command = ["ninja", "-j", str(jobs), "-C", "build", "shoal-sim"]
    done = subprocess.run(command, cwd=TREE, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the simulator does not compile:\n{done.stdout[-4000:]}")


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
    first, what = found[0] if found else (None, "")
    return {"seed": first, "found_by": what, "seeds_run": run, "seeds_that_find_it": len(found)}


def try_mutation(mutation: Mutation, jobs: int) -> dict:
    originals = {edit.file: (TREE / edit.file).read_text(encoding="utf-8") for edit in mutation.edits}
    try:
        for edit in mutation.edits:
            file = TREE / edit.file
            file.write_text(edit.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        build(jobs)
        outcome = try_seeds(jobs)
    finally:
        for name, text in originals.items():
            (TREE / name).write_text(text, encoding="utf-8")
    return {"name": mutation.name, "breaks": mutation.breaks, **outcome}


class Tried:
    """What was tried already on the sources of a digest."""

    def __init__(self, digest: str):
        self._digest = digest
        self._outcomes: dict[str, dict] = {}
        if TRIED.is_file():
            kept = json.loads(TRIED.read_text(encoding="utf-8"))
            self._outcomes = kept["outcomes"] if kept["sources"] == digest else {}

    def get(self, name: str) -> dict | None:
        return self._outcomes.get(name)

    def keep(self, name: str, outcome: dict) -> None:
        self._outcomes[name] = outcome
        TRIED.write_text(json.dumps({"sources": self._digest, "outcomes": self._outcomes}), encoding="utf-8")


def describe_tree() -> str:
    """Before the sources are copied: by the end the checkout may be another one."""
    state = subprocess.run(
        ["git", "-C", str(ROOT), "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    return commit.stdout.strip() + (" with uncommitted changes" if state.stdout.strip() else "")


def write_results(results: list[dict], tree: str) -> pathlib.Path:
    today = datetime.date.today().isoformat()
    folder = ROOT / "sim" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"mutations_{today}.md"
    found = sum(result["seed"] is not None for result in results)
    lines = [
        f"# Deliberate bugs and the seeds that find them, {today}",
        "",
        f"`make mutants` on {tree}: {found} of {len(results)} found by the {fixed_seeds()} seeds of `make test`. Seeds"
        " are run in",
        f"order until {ENOUGH_SEEDS} have found a bug; what the first of them said is shown.",
        "",
        "| bug | breaks | first seed | seeds that find it | found as |",
        "|---|---|---:|---:|---|",
    ]
    for result in results:
        what = result["found_by"].replace("|", "/")
        seed = "**none**" if result["seed"] is None else result["seed"]
        share = f"{result['seeds_that_find_it']} of {result['seeds_run']}"
        lines.append(f"| {result['name']} | {result['breaks']} | {seed} | {share} | {what[:160]} |")
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = {"date": today, "tree": tree, "mutations": results}
    report.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutations to try (all, and only then results are written)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compile jobs (one a core)")
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if not options.names or mutation.name in options.names]
    tree = describe_tree()
    tried = Tried(copy_sources())
    unchanged = tried.get("")
    if unchanged is None:
        build(options.jobs)
        unchanged = try_seeds(options.jobs)
        tried.keep("", unchanged)
    if unchanged["seed"] is not None:
        sys.exit(f"seed {unchanged['seed']} fails without any bug put in: {unchanged['found_by']}")
    results = []
    for mutation in chosen:
        started = time.monotonic()
        result = tried.get(mutation.name)
        if result is None:
            result = try_mutation(mutation, options.jobs)
            tried.keep(mutation.name, result)
        results.append(result)
        verdict = "NOT FOUND" if result["seed"] is None else f"seed {result['seed']}: {result['found_by']}"
        share = f"{result['seeds_that_find_it']} of {result['seeds_run']} seeds"
        print(f"{mutation.name} ({time.monotonic() - started:.0f} s, {share}): {verdict}", flush=True)
    if not options.names:
        print(f"written: {write_results(results, tree).relative_to(ROOT)}")
    survivors = [result["name"] for result in results if result["seed"] is None]
    if survivors:
        sys.exit(f"not found: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
