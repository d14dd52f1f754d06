"""Runs one test in build/mutants, and says how it failed."""

import os
import re
import signal
import subprocess
import sys

from mutation import CxxTest, Test
from tree import SITE, TREE, build, build_plugin

SECONDS = 150  # in which each of them ends; an op in one of them takes a minute at most
# What a test of the plugin needs beside the plugin.
OF_PYTHON_TESTS = ("shoal", "shoal-scheduler", "shoal-server", "simulated_cuda", "simulated_nccl")


def targets_of(test: Test) -> set[str]:
    return {test.program} if isinstance(test, CxxTest) else set(OF_PYTHON_TESTS)


def run_test(test: Test, jobs: int) -> str:
    """Builds what it needs, and runs it. Empty: it passed."""
    build(sorted(targets_of(test)), jobs)
    if isinstance(test, CxxTest):
        code, output = _run([str(TREE / "build" / "tests" / test.program), f"--gtest_filter={test.name}"], {})
        passed = "[  PASSED  ] 1 test." in output
        failed = code is not None and (code < 0 or "[  FAILED  ]" in output)
    else:
        build_plugin(jobs)
        environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH", "")])),
            "SHOAL_BIN": str(TREE / "build" / "bin"),
            "SHOAL_LIBRARY": str(TREE / "build" / "lib" / "libshoal.so"),
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{test.file}::{test.name}"]
        code, output = _run(command, environment)
        passed = re.search(r"^=+ 1 passed", output, re.MULTILINE) is not None
        # Otherwise pytest found no such test or could not start, or what the test needs could not be set up.
        failed = code is not None and (code < 0 or re.search(r"^FAILED ", output, re.MULTILINE) is not None)
    if code is None:
        return f"it did not end within {SECONDS} s"
    if failed:
        said = _of_cxx(output) if isinstance(test, CxxTest) else _of_python(output)
        return said.replace(f"{TREE}/", "") or f"it ended with status {code}"
    if code != 0 or not passed:
        sys.exit(f"{test} ran no test:\n{output[-4000:]}")
    return ""


def _run(command: list[str], environment: dict[str, str]) -> tuple[int | None, str]:
    """Its exit code (None: it was ended, with all that it started) and its output."""
    process = subprocess.Popen(
        command, cwd=TREE, env=os.environ | environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def _of_cxx(output: str) -> str:
    """What the first expectation that failed said, or the last words of a program that crashed."""
    failure = re.search(r": Failure\n(.*?)(?:\n\n|\n\[|\Z)", output, re.DOTALL)
    if failure is not None:
        return " ".join(failure[1].split())
    words = [line for line in output.splitlines() if line.strip() and not line.startswith(("[", "Note:"))]
    return f"it crashed: {words[-1]}" if words else ""


def _of_python(output: str) -> str:
    """The assertion that failed, in a rank or in the test, or what was raised."""
    errors = [line[1:].strip() for line in output.splitlines() if line.startswith("E ")]
    said = [line for line in errors if re.match(r"assert |[\w.]*(Error|Failed|Timeout)\b", line)]
    return next((line for line in said if "Traceback" not in line), "")
