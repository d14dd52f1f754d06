"""The probe of the servers' pods, run against a real scheduler and server."""

import contextlib
import os
import pathlib
import re
import subprocess
import time

import pytest

from chart import ROOT

PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
PROBE = ROOT / "docker" / "server_registered.sh"


@contextlib.contextmanager
def started(program: str, *arguments: str):
    """Runs a program until the block ends; gives what its line `listening on ADDRESS` says."""
    command = [str(PROGRAMS / program), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in process.stdout:
            if match := re.search(r"listening on (\S+)", line):
                yield match.group(1)
                return
        pytest.fail(f"{program} ended before it listened")
    finally:
        process.terminate()
        process.communicate(timeout=30)


def probe(scheduler: str, name: str) -> int:
    environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "SHOAL_SCHEDULER": scheduler, "POD_NAME": name}
    return subprocess.run([str(PROBE)], env=environment, stderr=subprocess.DEVNULL, timeout=30, check=False).returncode


def test_ready_while_the_shard_map_lists_the_server():
    with started("shoal-scheduler", "--listen=127.0.0.1:0") as scheduler:
        assert probe(scheduler, "shoal-server-1") != 0
        arguments = [f"--scheduler={scheduler}", "--advertise=127.0.0.1", "--net-device=lo", "--drain-timeout=0"]
        with started("shoal-server", *arguments, "--name=shoal-server-1"):
            assert probe(scheduler, "shoal-server-1") == 0
            assert probe(scheduler, "shoal-server-10") != 0, "another server's name begins alike"
            assert probe(scheduler, "shoal-server-") != 0
        deadline = time.monotonic() + 10
        while probe(scheduler, "shoal-server-1") == 0:
            assert time.monotonic() < deadline, "the server left and still counts as registered"


def test_not_ready_without_a_scheduler():
    assert probe("127.0.0.1:1", "shoal-server-0") != 0
