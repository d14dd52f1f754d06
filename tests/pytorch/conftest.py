"""Fixtures of the PyTorch tests: a cluster of one scheduler and two servers, shared by all of them."""

import contextlib
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator

import device_under_test
import pytest
from torch_cluster import Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 30


def program(name: str) -> str:
    path = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")) / name
    assert path.is_file(), f"{path} is missing: run `make build`, or set SHOAL_BIN"
    return str(path)


def start_program(log: pathlib.Path, name: str, *arguments: str) -> tuple[subprocess.Popen, str]:
    """Starts a scheduler or server and returns it with the first address of its "listening" line."""
    with open(log, "wb") as file:
        environment = os.environ | {"SHOAL_SERVER_FLIGHT_RECORDER": "off"}  # groups fail on purpose
        command = [program(name), *arguments]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        match = re.search(r"listening on ([\w.:-]+:\d+)", log.read_text())
        if match is not None:
            return process, match[1]
        time.sleep(0.02)
    process.kill()
    process.wait()
    raise AssertionError(f"{name} did not start:\n{log.read_text()}")


@contextlib.contextmanager
def start_cluster(logs: pathlib.Path) -> Iterator[Cluster]:
    processes = []
    try:
        scheduler, address = start_program(logs / "scheduler", "shoal-scheduler", "--listen", "127.0.0.1:0")
        processes.append(scheduler)
        for number in range(2):
            options = ("--scheduler", address, "--advertise", "127.0.0.1", "--net-device", "lo")
            processes.append(start_program(logs / f"server{number}", "shoal-server", *options)[0])
        yield Cluster(address, tuple(server.pid for server in processes[1:]))
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture
def own_cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    """One that no other test uses: for tests that disturb its servers."""
    with start_cluster(tmp_path) as started:
        yield started


@pytest.fixture(params=["through servers", "within a node by NCCL"])
def settings(cluster: Cluster, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of ranks whose tensors are on devices."""
    ways = {"through servers": device_under_test.ENVIRONMENT, "within a node by NCCL": device_under_test.ON_NODES}
    return cluster.environment() | ways[request.param]
