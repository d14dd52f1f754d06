#!/usr/bin/env python3
"""Builds the simulator with one deliberate bug at a time (mutations.py) and says which seed of `make test` finds it.

Fails if a bug is not found, and says which. Writes sim/results/mutations_DATE.json and .md. Works on a copy of the
sources in build/mutants, so nothing of the checkout is touched. `make mutants`; a quarter of an hour on two cores.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from mutations import MUTATIONS, ROOT, Mutation

TREE = ROOT / "build" / "mutants"
PROGRAM = TREE / "build" / "bin" / "shoal-sim"
MINUTES_PER_MUTANT = 10


def copy_sources() -> None:
    """Brings the copy up to date; what did not change keeps its time, so that little is compiled."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)


def build(jobs: int) -> None:
    environment = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    if not (TREE / "build" / "build.ninja").is_file():
        subprocess.run(["cmake", "--preset", "release"], cwd=TREE, env=environment, check=True, capture_output=True)
    command = ["ninja", "-j", str(jobs), "-C", "build", "shoal-sim"]
    done = subprocess.run(command, cwd=TREE, env=environment, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the simulator does not compile:\n{done.stdout[-4000:]}")


def first_failure() -> tuple[int | None, str]:
    """The first seed that fails and what failed; (None, "") if none does."""
    try:
        done = subprocess.run(
            [PROGRAM, "--stop-after", "1"], check=False, capture_output=True, text=True, timeout=60 * MINUTES_PER_MUTANT
        )
    except subprocess.TimeoutExpired:
        sys.exit("the seeds take too long")
    if done.returncode == 0:
        return None, ""
    found = re.search(r"^seed (\d+) FAILED: (.*?)(?: \(replay: .*\))?$", done.stdout, re.MULTILINE)
    if found is None:
        sys.exit(f"shoal-sim ended with status {done.returncode} and named no seed:\n{done.stdout}{done.stderr}")
    return int(found.group(1)), found.group(2)


def try_mutation(mutation: Mutation, jobs: int) -> dict:
    originals = {edit.file: (TREE / edit.file).read_text(encoding="utf-8") for edit in mutation.edits}
    try:
        for edit in mutation.edits:
            file = TREE / edit.file
            file.write_text(edit.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        build(jobs)
        seed, what = first_failure()
    finally:
        for name, text in originals.items():
            (TREE / name).write_text(text, encoding="utf-8")
    return {"name": mutation.name, "breaks": mutation.breaks, "seed": seed, "found_by": what}


def write_results(results: list[dict]) -> pathlib.Path:
    state = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain"], check=True, capture_output=True, text=True)
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True
    )
    today = datetime.date.today().isoformat()
    tree = commit.stdout.strip() + (" with uncommitted changes" if state.stdout.strip() else "")
    folder = ROOT / "sim" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"mutations_{today}.md"
    found = sum(result["seed"] is not None for result in results)
    lines = [
        f"# Deliberate bugs and the seeds that find them, {today}",
        "",
        f"`make mutants` on {tree}: {found} of {len(results)} found by the seeds of `make test`, each with its first seed.",
        "",
        "| bug | breaks | seed | found as |",
        "|---|---|---:|---|",
    ]
    for result in results:
        what = result["found_by"].replace("|", "/")
        seed = "**none**" if result["seed"] is None else result["seed"]
        lines.append(f"| {result['name']} | {result['breaks']} | {seed} | {what[:160]} |")
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
    copy_sources()
    build(options.jobs)
    seed, what = first_failure()
    if seed is not None:
        sys.exit(f"seed {seed} fails without any bug put in: {what}")
    results = []
    for mutation in chosen:
        started = time.monotonic()
        result = try_mutation(mutation, options.jobs)
        results.append(result)
        verdict = "NOT FOUND" if result["seed"] is None else f"seed {result['seed']}: {result['found_by']}"
        print(f"{mutation.name} ({time.monotonic() - started:.0f} s): {verdict}", flush=True)
    if not options.names:
        print(f"written: {write_results(results).relative_to(ROOT)}")
    survivors = [result["name"] for result in results if result["seed"] is None]
    if survivors:
        sys.exit(f"not found: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
