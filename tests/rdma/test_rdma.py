"""Real RDMA verbs: the programs just built, in an emulated machine with Soft-RoCE devices (boot_guest.sh).

One boot for all of guest_checks.py; each check is a test here. With CI=true a machine that can't be had is a failure.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from guest_checks import CHECKS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GUEST = ROOT / "build/tools/rdma_guest"
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build/bin"))
# For a machine that is so much slower than the one that the limits of guest_checks.py were found on.
TIME_FACTOR = 3
BOOT_LIMIT_S = 180
LIMIT_S = BOOT_LIMIT_S + TIME_FACTOR * sum(check.limit_s for check in CHECKS.values())


def give_up(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{why}; with CI=true the RDMA tests must run")
    pytest.skip(f"RDMA IS NOT TESTED: {why}")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, dict]:
    if not (GUEST / "vmlinux").exists():
        give_up(f"{GUEST} is not there (scripts/rdma_guest.sh makes it)")
    if shutil.which("qemu-system-x86_64") is None:
        give_up("no qemu-system-x86_64 (make setup installs it)")
    shared = tmp_path_factory.mktemp("guest")
    variables = f"SHOAL_BIN='{PROGRAMS}' SHOAL_TEST_TIME_FACTOR={TIME_FACTOR}"
    command = f"{variables} /usr/bin/python3 '{HERE}/guest_checks.py' /run/shared/outcomes"
    result = subprocess.run(
        [HERE / "boot_guest.sh", shared, command],
        env=os.environ | {"GUEST_SECONDS": str(LIMIT_S)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    print(result.stdout)
    file = shared / "outcomes"
    if not file.exists():
        give_up(f"the guest did not come up ({result.returncode}): {result.stdout[-2000:]}")
    found = {outcome["name"]: outcome for outcome in map(json.loads, file.read_text().splitlines())}
    return found | {"": {"said": result.stdout, "status": result.returncode}}


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("name", CHECKS)
def test_in_the_guest(outcomes: dict[str, dict], name: str):
    outcome = outcomes.get(name)
    assert outcome is not None, f"the guest ended before this check did: {outcomes['']}"
    print(outcome["said"])
    assert not outcome["failure"], outcome["failure"]
