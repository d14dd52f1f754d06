#!/usr/bin/env python3
"""How long it takes from a clean clone to a trained model, to a build of everything, and to tests that have passed.

`bench/first_build/run.py` (half an hour on two cores); `--only demo` for one of `make demo`, `make build`, `make test`.
Each works in a clone of HEAD of its own, in a temporary folder below build/, with the compiler's cache off. Debian's
packages are installed, and Python's are downloaded, by an ordinary `make build` before. Writes
bench/results/first-build_DATE.md. Exit status 1 if one failed, or took longer than MOST_MINUTES says.
"""

import argparse
import datetime
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
NAME = "first-build"
TITLE = "From a clean clone"
MOST_MINUTES = {"demo": 3, "build": None, "test": 20}
STEP = re.compile(r"^\[(\w+) \d+/\d+\] (?!.*\(\d+ s\)$)(.+)$|^\[(\w+) \d+/\d+\] .*\((\d+) s\)$")


def processor_s() -> float:
    """Of all processes that were started and waited for so far, and by those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_target(target: str, folder: pathlib.Path, log: pathlib.Path) -> dict:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    before_s, begin = processor_s(), time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            ["make", target], cwd=folder, env=os.environ | {"CCACHE_DISABLE": "1"}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    wall_s = time.monotonic() - begin
    return {
        "target": target,
        "code": done.returncode,
        "wall_s": wall_s,
        "processor_s": processor_s() - before_s,
        "steps": steps_of(log.read_text(encoding="utf-8", errors="replace")),
    }


def steps_of(output: str) -> list[tuple[str, int]]:
    """What scripts/progress.sh says: a step's name, and at its end the seconds that it took."""
    steps, name = [], ""
    for line in output.splitlines():
        if found := STEP.match(line):
            if found.group(2):
                name = f"{found.group(1)}: {found.group(2)}"
            else:
                steps.append((name, int(found.group(4))))
    return steps


def page_of(report: dict) -> str:
    rows, steps = [], []
    for result in report["results"]:
        limit = MOST_MINUTES[result["target"]]
        rows.append(
            f"| `make {result['target']}` | {result['wall_s'] / 60:.1f} | {limit or ''} |"
            f" {result['processor_s'] / 60:.1f} | {'passed' if result['code'] == 0 else 'FAILED'} |"
        )
        steps += [f"| `make {result['target']}` | {name} | {seconds} |" for name, seconds in result["steps"]]
    lines = [
        f"# {TITLE}", "", measured_by(report), "",
        "Each in a clone of its own, without the compiler's cache. Debian's packages are installed, Python's are"
        " downloaded.", "",
        "| command | minutes | at most | processor time, minutes | outcome |", "|---|---:|---:|---:|---|", *rows, "",
        "| command | step | seconds |", "|---|---|---:|", *steps,
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MOST_MINUTES)
    options = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    command = "bench/first_build/run.py" + (f" --only {options.only}" if options.only else "")
    report = begin_report(NAME, TITLE, started, command, ROOT) | {"results": []}
    for target in [options.only] if options.only else MOST_MINUTES:
        log = ROOT / "build" / "logs" / f"first_build_{target}.log"
        with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="first_build_") as folder:
            result = run_target(target, pathlib.Path(folder) / "shoal", log)
        report["results"].append(result)
        print(f"make {target}: {result['wall_s']:.0f} s, code {result['code']}, see {log}", flush=True)
    write_result(report, page_of(report), RESULTS)
    return int(any(result["code"] != 0 or is_too_slow(result) for result in report["results"]))


def is_too_slow(result: dict) -> bool:
    limit = MOST_MINUTES[result["target"]]
    return limit is not None and result["wall_s"] > limit * 60


if __name__ == "__main__":
    sys.exit(main())
