"""How run_checks.py judges what a check printed. The checks themselves want a device."""

import dataclasses
import importlib.util
import pathlib
import sys
from types import ModuleType

import pytest
from gpu_checks import CHECKS, DRIVER, Check
from run_checks import ROOT, Outcome, Runner, counts_of, page, why_not

GOOGLETEST = """
[ RUN      ] Kernel.Copies
[==========] 9 tests from 2 test suites ran. (12 ms total)
[  PASSED  ] 8 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Kernel.OfTheSimulation
"""
SIMULATED_DRIVER = ROOT / "build/tests/libsimulated_cuda.so"
SIMULATED_NCCL = ROOT / "build/tests/libsimulated_nccl.so"


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


def test_tests_that_were_skipped_are_no_success_but_for_what_a_real_device_lacks(runner: Runner):
    summary = "SKIPPED [2] tests/a_test.py:7: {}\n3 passed, 2 skipped"
    assert runner.run(python_check(summary.format("a real driver is not told to refuse"))).state == "passed"
    skipped = runner.run(python_check(summary.format("no CUDA device here")))
    assert (skipped.state, skipped.why) == ("failed", "tests were skipped: no CUDA device here")
    of_googletest = GOOGLETEST + "a_test.cc:9: Skipped\n{}\n"
    assert runner.run(python_check(of_googletest.format("a real device is not broken for a test"))).state == "passed"
    assert runner.run(python_check(of_googletest.format("needs root"))).why == "tests were skipped: needs root"
    unexplained = runner.run(python_check("3 passed, 1 skipped"))
    assert unexplained.why == "1 tests were skipped, and not for each of them it says why"


CHECKS_BY_PYTEST = [check for check in CHECKS if check.command.startswith("{python} -m pytest ")]


@pytest.mark.parametrize("check", CHECKS_BY_PYTEST, ids=lambda check: check.shown)
def test_pytest_skips_on_a_device_nothing_but_what_it_lacks(runner: Runner, check: Check):
    for word in check.command.split():
        if word.endswith(".py"):  # of what is skipped while it runs nothing is known here
            text = (ROOT / word).read_text(encoding="utf-8")
            assert "pytest.skip(" not in text and "importorskip" not in text, word
    environment = {**check.environment, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    outcome = runner.run(
        dataclasses.replace(check, command=check.command + " -p skipped_on_device", environment=environment)
    )
    if "TEST_ON_GPU" in check.environment:
        assert (outcome.state, outcome.why) == ("passed", ""), outcome.output
    else:
        no_tests = "its exit code is 5"  # where there is a device
        assert outcome.why in ("tests were skipped: no CUDA device here", no_tests), outcome.output


def test_programs_skip_on_a_device_nothing_but_what_it_lacks(runner: Runner):
    libraries = {"SHOAL_TEST_CUDA_LIBRARY": str(SIMULATED_DRIVER), "SHOAL_NCCL_LIBRARY": str(SIMULATED_NCCL)}
    skipping = set()
    for check in CHECKS:
        if check.command.startswith("build/tests/"):
            assert check.environment == DRIVER
            outcome = runner.run(dataclasses.replace(check, environment=libraries))  # a named driver counts as real
            assert (outcome.state, outcome.why) == ("passed", ""), outcome.output
            if counts_of("\n".join(outcome.output))["skipped"] > 0:
                skipping.add(check.command)
    assert skipping == {
        "build/tests/cuda_driver_test",
        "build/tests/worker_c_api_device_test",
        "build/tests/worker_c_api_node_device_test",
    }


def test_programs_of_the_library_get_the_nccl_beside_torch(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    show = "{python} -c \"import os; print('NCCL:', os.environ.get('SHOAL_NCCL_LIBRARY'))\""
    nccl = tmp_path / "nvidia/nccl/lib/libnccl.so.2"
    nccl.parent.mkdir(parents=True)
    nccl.touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("SHOAL_NCCL_LIBRARY", raising=False)
    runner = Runner(tmp_path)
    assert runner.run(Check("library", show, "its path", devices=0)).output == [f"NCCL: {nccl}"]
    assert runner.run(Check("plugin", show, "nothing: torch has loaded its own", devices=0)).output == ["NCCL: None"]
    monkeypatch.setenv("SHOAL_NCCL_LIBRARY", "/another/libnccl.so.2")
    assert Runner(tmp_path).run(Check("library", show, "as is", devices=0)).output == ["NCCL: /another/libnccl.so.2"]


@pytest.fixture(scope="module")
def rates() -> ModuleType:
    spec = importlib.util.spec_from_file_location("all_reduce_rates", ROOT / "bench/gpu/all_reduce_rates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_large_op_is_judged_by_its_bound_where_each_rank_has_a_device(rates: ModuleType):
    assert rates.verdict({256 << 20: 1.15}, 2) == (
        False,
        "256 MiB met: 1.15 times the slower of copies and transport, and 1.15 is the most",
    )
    missed, said = rates.verdict({4 << 10: 1.0, 256 << 20: 1.16}, 2)
    assert missed and said.startswith("256 MiB missed: 1.16 times")
    for ratios, devices, why in (
        ({256 << 20: 9.0}, 1, "both ranks share one device"),
        ({}, 0, "the tensors are in host memory"),
        ({4 << 10: 9.0}, 2, "it was not measured"),
    ):
        missed, said = rates.verdict(ratios, devices)
        assert not missed and said.startswith(f"256 MiB not judged: {why}")


def test_the_verdict_of_a_check_is_in_the_result(runner: Runner):
    met = runner.run(python_check("a table\n256 MiB met: 1.02\n", verdict="256 MiB "))
    assert (met.state, met.why) == ("passed", "256 MiB met: 1.02")
    missed = Check("plugin", "{python} -c \"print('256 MiB missed: 1.4'); exit(1)\"", "", devices=0, verdict="256 MiB ")
    assert runner.run(missed).why == "its exit code is 1; 256 MiB missed: 1.4"


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
