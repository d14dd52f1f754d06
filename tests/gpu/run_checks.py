#!/usr/bin/env python3
"""Runs the checks of docs/gpu_checks.md that this machine can run, and writes one result file.

    build/venv/bin/python tests/gpu/run_checks.py             in a checkout, after `make build`
    python3 tests/gpu/run_checks.py                           in what `make dist` made, with a python that has torch

In the bundle it first compiles the plugin against that torch, without a network. A few tests that want no GPU come
before the checks, so that a failure of the set-up is not taken for one of the device. What can't run here is listed
with the reason. Ends with 1 if a check failed. It needs no package itself; the checks need pytest, numpy, setuptools.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

from gpu_checks import ACCEPTED_SKIPS, CHECKS, Check

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV_PYTHON = ROOT / "build/venv/bin/python"
SITE = ROOT / "build/site"
LIBRARY = ROOT / "build/lib/libshoal.so"
LINES_KEPT = 40  # of a check's output, in the result
PREPARATION_SECONDS = 900
ON_CPU = "{python} -m pytest -q tests/pytorch/test_torch_all_reduce.py"
FACTS = """
import json, torch
print(json.dumps({
    "torch": torch.__version__,
    "cuda": torch.version.cuda,
    "nccl": ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else None,
    "devices": [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())],
}))
"""
NCCL_BESIDE_TORCH = """
import pathlib, sys
paths = (pathlib.Path(folder) / "nvidia/nccl/lib/libnccl.so.2" for folder in sys.path)
print(next((path for path in paths if path.is_file()), ""))
"""


@dataclasses.dataclass
class Outcome:
    command: str
    expected: str
    state: str  # "passed", "failed" or "not run"
    why: str = ""  # or the verdict of a check that has one
    seconds: float = 0.0
    output: list[str] = dataclasses.field(default_factory=list)


def counts_of(output: str) -> collections.Counter:
    """How many tests passed, failed and were skipped, as GoogleTest and pytest say at their end."""
    counts = collections.Counter()
    for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", output):
        counts[word] += int(number)
    for word, number in re.findall(r"^\[ +(PASSED|SKIPPED|FAILED) +\] (\d+) tests?", output, re.MULTILINE):
        counts[word.lower()] += int(number)
    return counts


def reasons_of_skips(output: str) -> list[str]:
    """Why tests were skipped, as GoogleTest and pytest say; at least one for each of them."""
    reasons = re.findall(r"^\S+:\d+: Skipped\n(.*)$", output, re.MULTILINE)
    for number, reason in re.findall(r"^SKIPPED \[(\d+)\] \S+: (.*)$", output, re.MULTILINE):
        reasons += int(number) * [reason]
    return reasons


class Runner:
    def __init__(self, out: pathlib.Path) -> None:
        self._out = out
        self._in_checkout = VENV_PYTHON.is_file()
        self.python = str(VENV_PYTHON) if self._in_checkout else sys.executable
        self._environment = os.environ | {"SHOAL_BIN": str(ROOT / "build/bin"), "SHOAL_LIBRARY": str(LIBRARY)}
        if not self._in_checkout:
            paths = [str(SITE), os.environ.get("PYTHONPATH", "")]
            self._environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        self._text = out / "text.txt"
        self._library_environment = self._environment | self._nccl()

    def _nccl(self) -> dict[str, str]:
        """Torch's NCCL, which a program without torch does not find by itself, unless the caller names one."""
        if "SHOAL_NCCL_LIBRARY" in os.environ:
            return {}
        command = [self.python, "-c", NCCL_BESIDE_TORCH]
        asked = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True)
        path = asked.stdout.strip()
        return {"SHOAL_NCCL_LIBRARY": path} if path else {}

    def prepare(self) -> Outcome:
        """The plugin, in the bundle; a text to train on."""
        texts = sorted(path for folder in ("pytorch", "tests", "examples") for path in (ROOT / folder).rglob("*.py"))
        for name in ("rates.json", "shoal.json", "nccl.json"):  # of an earlier run
            (self._out / name).unlink(missing_ok=True)
        self._text.write_text("".join(path.read_text(encoding="utf-8") for path in texts), encoding="utf-8")
        if self._in_checkout:
            return Outcome("make build", "the plugin is in build/venv", "passed")
        shutil.rmtree(SITE, ignore_errors=True)
        options = "--no-build-isolation --no-deps --no-index --no-compile --target build/site"
        command = f"{{python}} -m pip install {options} ./pytorch"
        jobs = {"MAX_JOBS": str(os.cpu_count() or 1)}
        return self.run(Check("plugin", command, "the plugin compiles", jobs, 0, timeout_s=PREPARATION_SECONDS))

    def facts(self) -> dict:
        found = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
        found |= {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        asked = subprocess.run([self.python, "-c", FACTS], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            sys.exit(f"{self.python} has no torch that works: {asked.stderr.strip().splitlines()[-1:]}")
        found |= json.loads(asked.stdout.splitlines()[-1])
        found["nccl of the library"] = self._library_environment.get("SHOAL_NCCL_LIBRARY", "the system's")
        for name, command in {
            "driver": ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            "nvcc": ["nvcc", "--version"],
        }.items():
            if shutil.which(command[0]) is not None:
                said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
                found[name] = said.splitlines()[-1] if said else ""
        return found

    def run(self, check: Check) -> Outcome:
        paths = {"python": self.python, "text": self._text, "out": self._out}
        command = check.command.format(**{name: shlex.quote(str(path)) for name, path in paths.items()})
        outcome = Outcome(check.shown, check.expected, "failed")
        environment = self._library_environment if check.part == "library" else self._environment
        begun = time.monotonic()
        process = subprocess.Popen(
            shlex.split(command), cwd=ROOT, env=environment | dict(check.environment), text=True,
            errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=check.timeout_s)
            outcome.why = self._judge(check, process.returncode, output)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it started would be on the device beside the next check
            output, _ = process.communicate()
            outcome.why = f"it did not end within {check.timeout_s} s"
        outcome.seconds = round(time.monotonic() - begun, 1)
        outcome.output = output.splitlines()[-LINES_KEPT:]
        if not outcome.why:
            outcome.state = "passed"
        verdicts = [line for line in output.splitlines() if check.verdict and line.startswith(check.verdict)]
        outcome.why = "; ".join(filter(None, [outcome.why, *verdicts]))
        return outcome

    def _judge(self, check: Check, code: int, output: str) -> str:
        """Empty if it is as it should be."""
        if code != 0:
            return f"its exit code is {code}"
        if check.output not in output:
            return f'its output lacks "{check.output}"'
        reasons = reasons_of_skips(output)
        unaccepted = sorted({reason for reason in reasons if not reason.startswith(ACCEPTED_SKIPS)})
        if unaccepted:
            return f"tests were skipped: {'; '.join(unaccepted)}"
        skipped = counts_of(output)["skipped"]
        return "" if skipped <= len(reasons) else f"{skipped} tests were skipped, and not for each of them it says why"


def why_not(check: Check, devices: int) -> str:
    """Why the check can't run on this machine; empty: it can."""
    if devices < check.devices:
        lacking = f"it wants {check.devices} CUDA devices, and {devices} is here"
        return "no CUDA device here" if devices == 0 else lacking
    program = shlex.split(check.command)[0]
    if not program.startswith("{") and not (ROOT / program).exists() and shutil.which(program) is None:
        return f"{program} is not here"
    return ""


def page(facts: dict, outcomes: list[Outcome]) -> str:
    lines = ["# GPU checks", ""]
    lines += [f"- {name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in facts.items()]
    lines += ["", "| check | expected | result | seconds |", "| --- | --- | --- | --- |"]
    for outcome in outcomes:
        result = outcome.state if not outcome.why else f"{outcome.state}: {outcome.why}"
        lines.append(f"| `{outcome.command}` | {outcome.expected} | {result} | {outcome.seconds} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/gpu_checks", help="folder of the results")
    out = parser.parse_args().output.resolve()
    out.mkdir(parents=True, exist_ok=True)
    runner = Runner(out)
    facts = runner.facts()
    print(f"torch {facts['torch']}, devices: {', '.join(facts['devices']) or 'none'}", flush=True)
    outcomes = []

    def note(outcome: Outcome) -> bool:
        outcomes.append(outcome)
        print(f"{outcome.state:8} {outcome.command} {outcome.why} ({outcome.seconds} s)", flush=True)
        return outcome.state == "passed"

    ready = note(runner.prepare()) and note(runner.run(Check("plugin", ON_CPU, "all pass, on the CPU", devices=0)))
    for check in CHECKS:
        why = why_not(check, len(facts["devices"]))
        if not ready and check.part == "plugin":
            why = why or "the plugin does not work here"
        if why:
            note(Outcome(check.shown, check.expected, "not run", why))
        else:
            note(runner.run(check))
    name = f"gpu_checks_{facts['date'][:10]}"
    results = {"facts": facts, "outcomes": [dataclasses.asdict(outcome) for outcome in outcomes]}
    rates = out / "rates.json"
    if rates.is_file():
        results["rates"] = json.loads(rates.read_text(encoding="utf-8"))
    (out / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (out / f"{name}.md").write_text(page(facts, outcomes), encoding="utf-8")
    counts = collections.Counter(outcome.state for outcome in outcomes)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['not run']} not run: {out / name}.json")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
