#!/usr/bin/env python3
"""Writes docs/torch_suite.md: what Gloo and Shoal make of every test of torch's DistributedTest. Five minutes.

    build/venv/bin/python scripts/torch_suite_page.py

After `make build`. tests/pytorch/test_torch_suite.py holds Shoal to the page.
"""

import collections
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/pytorch")]

import torch  # noqa: E402  isort: skip
from torch_cluster import clean_environment, start_cluster  # noqa: E402  isort: skip
from torch_suite_runs import PAGE, run_suite  # noqa: E402  isort: skip

LINE = 120


def what_was_raised(outcome: dict) -> str:
    """Its line of the traceback, to which a comparison adds more, and torch how to run the test again."""
    text = outcome["why"].split("To execute this test", 1)[0].strip()
    raised = [line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return (raised or text.splitlines())[-1].replace("|", "\\|")


def wrapped(names: list[str]) -> str:
    lines = [""]
    for name in names:
        item = f"`{name}`, " if name != names[-1] else f"`{name}`"
        if len(lines[-1]) + len(item) > LINE:
            lines.append("")
        lines[-1] += item
    return "\n".join(line.rstrip() for line in lines) + "\n"


def page(gloo: dict[str, dict], ours: dict[str, dict]) -> str:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    by_pair: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for name in sorted(gloo):
        by_pair[gloo[name]["outcome"], ours[name]["outcome"]].append(name)
    passed = by_pair.pop(("passed", "passed"), [])
    gloo_alone = by_pair.pop(("passed", "failed"), [])
    failed = by_pair.pop(("failed", "failed"), [])
    skipped = by_pair.pop(("skipped", "skipped"), [])
    others = [f"`{name}` ({pair[0]} by Gloo, {pair[1]} by Shoal)" for pair, names in by_pair.items() for name in names]
    reasons = collections.defaultdict(list)
    for name in skipped:
        reasons[gloo[name]["why"]].append(name)
    text = f"""# torch's own tests

`DistributedTest` of torch {torch.__version__} on four ranks without a GPU, on Gloo and on Shoal with two servers.
`scripts/torch_suite_page.py` wrote this page on {datetime.date.today()}, on commit {commit} and what was changed since.
Tests choose by the backend's name what they try; both backends say that it is gloo (`tests/pytorch/torch_suite.py`).
`make test` runs on Shoal what both passed.

| | Gloo | Shoal |
|---|---:|---:|
"""
    for outcome in ("passed", "failed", "skipped"):
        counts = [sum(row["outcome"] == outcome for row in rows.values()) for rows in (gloo, ours)]
        text += f"| {outcome} | {counts[0]} | {counts[1]} |\n"
    text += "\n## Passed by Gloo alone\n\nThe tests compare the name of the backend.\n\n"
    text += "| test | on Shoal |\n|---|---|\n"
    for name in gloo_alone:
        text += f"| `{name}` | {what_was_raised(ours[name])} |\n"
    text += "\n## Failed by both\n\nThey want a GPU, torchvision, or what Gloo does not do.\n\n"
    text += "| test | on Gloo | on Shoal |\n|---|---|---|\n"
    for name in failed:
        text += f"| `{name}` | {what_was_raised(gloo[name])} | {what_was_raised(ours[name])} |\n"
    if others:
        text += "\n## Different otherwise\n\n" + "\n".join(others) + "\n"
    text += f"\n## Passed by both\n\n{wrapped(passed)}\n## Skipped by both\n"
    for reason, names in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        text += f"\n{reason} ({len(names)})\n\n{wrapped(names)}"
    return text


def main() -> int:
    gloo = run_suite("gloo", [], clean_environment())
    with start_cluster() as cluster:
        ours = run_suite("shoal", [], clean_environment(**cluster.environment()))
    PAGE.write_text(page(gloo, ours), encoding="utf-8")
    passed = sum(row["outcome"] == "passed" for row in gloo.values())
    print(f"{PAGE.relative_to(ROOT)}: Gloo passes {passed} of {len(gloo)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
