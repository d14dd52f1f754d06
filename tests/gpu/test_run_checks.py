"""How run_checks.py judges what a check printed. The checks themselves want a device."""

import pathlib
import sys

import pytest
from gpu_checks import CHECKS, Check
from run_checks import ROOT, Outcome, Runner, counts_of, page, why_not

GOOGLETEST = """
[ RUN      ] Kernel.Copies
[==========] 9 tests from 2 test suites ran. (12 ms total)
[  PASSED  ] 8 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Kernel.OfTheSimulation
"""


def python_check(text: str, **more: object) -> Check:
    return Check("plugin", f'{{python}} -c "print({text!r})"', "a line", devices=0, **more)


@pytest.fixture
def runner(tmp_path: pathlib.Path) -> Runner:
    runner = Runner(tmp_path)
    runner.python = sys.executable
    return runner


def test_tests_are_counted_as_googletest_and_pytest_say():
    assert counts_of(GOOGLETEST) == {"passed": 8, "skipped": 1}
    assert counts_of("== 2 failed, 15 passed, 3 skipped in 4.50s ==") == {"failed": 2, "passed": 15, "skipped": 3}


def test_a_check_fails_by_its_exit_code_its_output_or_its_time(runner: Runner):
    assert runner.run(python_check("15 passed", output="15 passed")).state == "passed"
    lacking = runner.run(python_check("cpu gloo", output="cuda nccl"))
    assert (lacking.state, lacking.why) == ("failed", 'its output lacks "cuda nccl"')
    code = runner.run(Check("plugin", "{python} -c 'raise SystemExit(3)'", "nothing", devices=0))
    assert (code.state, code.why) == ("failed", "its exit code is 3")
    late = runner.run(Check("plugin", "{python} -c 'import time; time.sleep(60)'", "nothing", devices=0, timeout_s=1))
    assert (late.state, late.why) == ("failed", "it did not end within 1 s")


def test_tests_that_were_skipped_are_no_success(runner: Runner):
    skipped = runner.run(python_check("3 passed, 2 skipped", skipped=1))
    assert (skipped.state, skipped.why) == ("failed", "2 tests were skipped, and 1 may be")
    assert runner.run(python_check("3 passed, 1 skipped", skipped=1)).state == "passed"


def test_what_can_not_run_here_says_why():
    check = Check("plugin", "{python} -c 1", "nothing", devices=2)
    assert why_not(check, 0) == "no CUDA device here"
    assert why_not(check, 1) == "it wants 2 CUDA devices, and 1 is here"
    assert why_not(check, 2) == ""
    assert why_not(Check("library", "no-such-tool build/tests/x", "nothing"), 1) == "no-such-tool is not here"


def test_the_page_has_a_line_for_each_check():
    outcomes = [Outcome("a", "b", "not run", "no CUDA device here"), Outcome("c", "d", "passed", seconds=1.5)]
    text = page({"torch": "2.11", "devices": []}, outcomes)
    assert "| `a` | b | not run: no CUDA device here | 0.0 |" in text and "| `c` | d | passed | 1.5 |" in text


def test_the_checks_name_what_is_there():
    for check in CHECKS:
        for word in check.command.split():
            if word.startswith(("tests/", "bench/", "examples/")):
                assert (ROOT / word).exists(), check.command
