"""How torch_suite.py is run, for its tests and for the page that says what came out (docs/torch_suite.md)."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests/pytorch/torch_suite.py"
PAGE = ROOT / "docs/torch_suite.md"
RUN_SECONDS = 900


def torchs_names() -> set[str]:
    command = [sys.executable, str(PROGRAM), "--names"]
    return set(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split())


def run_suite(backend: str, names: list[str], environment: dict[str, str]) -> dict[str, dict]:
    """By name of the test; no names: all."""
    command = [sys.executable, str(PROGRAM), backend, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    return {outcome["test"]: outcome for outcome in outcomes}
