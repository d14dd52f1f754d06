"""Lets each fuzzer search for some seconds, from its committed corpus on: what a peer sends can't harm. Also runs, with
the fuzzers' sanitizers, the tests of the code that reads it.

scripts/fuzz.sh says how to search longer. SHOAL_FUZZ_SECONDS says how long here.
"""

import os
import pathlib
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/fuzz/tests"
CORPUS = pathlib.Path(__file__).parent / "corpus"
SECONDS = int(os.environ.get("SHOAL_FUZZ_SECONDS", "10"))
TARGETS = sorted(folder.name for folder in CORPUS.iterdir())
LIST = pathlib.Path(__file__).with_name("sanitized_tests.txt")
SANITIZED_TESTS = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]


@pytest.fixture(scope="session")
def fuzzers():
    # A session of its own: where the test runs out of time, the compilers end as well.
    build = subprocess.Popen([ROOT / "scripts/fuzz.sh"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        code = build.wait()
    except BaseException:
        os.killpg(build.pid, signal.SIGTERM)
        build.wait()
        raise
    assert code == 0, "scripts/fuzz.sh failed; see above"


@pytest.mark.long
@pytest.mark.usefixtures("fuzzers")
@pytest.mark.timeout(SECONDS + 1800)  # the first test also builds
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_that_is_sent_harms(target: str, tmp_path: pathlib.Path):
    found = ROOT / "build/fuzz/found"
    found.mkdir(parents=True, exist_ok=True)
    searched = tmp_path / "corpus"
    searched.mkdir()
    command = [str(PROGRAMS / target), f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=1024"]
    command += [f"-artifact_prefix={found}/{target}_", str(searched), str(CORPUS / target)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS + 600, check=False)
    if run.returncode != 0:
        again = [line.split()[-1] for line in run.stderr.splitlines() if "Test unit written to" in line]
        how = f"scripts/fuzz.sh {target} {again[-1]}" if again else " ".join(command)
        pytest.fail(f"{run.stderr[-6000:]}\n\nRun it again: {how}", pytrace=False)


@pytest.mark.long
@pytest.mark.usefixtures("fuzzers")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SANITIZED_TESTS)
def test_sanitizers_find_nothing(name: str):
    options = {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    run = subprocess.run(
        [PROGRAMS / name],
        env=os.environ | options,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-6000:]


def test_every_fuzzer_has_a_corpus():
    assert [path.stem for path in sorted(pathlib.Path(__file__).parent.glob("*_fuzz.cc"))] == TARGETS
