"""Shoal with other releases of UCX than the one that it is built against here: compiled against them, and as it is, run
with their libraries. Same suites, same bits, and members of one cluster may differ.
"""

import dataclasses
import json
import os
import pathlib
import subprocess

import pytest

from hosts.cluster import ROOT, SERVER_LISTENS, Cluster
from hosts.node import LOOPBACK

SUITES = ("ucx_transport_test", "transport_process_test", "ucx_settings_test", "ucx_strangers_test")
SUITES += ("handshake_sockets_test", "combined_transport_test")
PACKAGES = [line for line in (ROOT / "scripts/ucx_versions.txt").read_text().splitlines() if not line.startswith("#")]
VERSIONS = [package.partition("==")[2] for package in PACKAGES]


@dataclasses.dataclass(frozen=True)
class Build:
    """A build's folder, and the UCX that its programs are run with."""

    folder: pathlib.Path
    version: str  # of UCX; empty: Debian's
    environment: dict[str, str]


OWN = Build(ROOT / "build", "", {})


def built_against(version: str) -> Build:
    return Build(ROOT / f"build/ucx-{version}", version, {})


def run_with(version: str) -> Build:
    return Build(ROOT / "build", version, {"LD_LIBRARY_PATH": str(ROOT / f"build/tools/ucx/{version}/libucx/lib")})


NEWEST = VERSIONS[-1]


@pytest.fixture(scope="session", autouse=True)
def builds():
    subprocess.run([ROOT / "scripts/ucx_versions.sh"], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.timeout(2400)  # the first one builds
@pytest.mark.parametrize(
    "build",
    [built_against(NEWEST), *map(run_with, VERSIONS)],
    ids=[f"built against {NEWEST}", *(f"run with {version}" for version in VERSIONS)],
)
def test_the_transport_keeps_its_contract(build: Build):
    for suite in SUITES:
        command = [build.folder / "tests" / suite, "--gtest_brief=1"]
        environment = os.environ | build.environment
        run = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=180)
        assert run.returncode == 0, f"{suite} with UCX {build.version}:\n{run.stdout[-6000:]}\n{run.stderr[-3000:]}"


def start_server(cluster: Cluster, name: str, build: Build) -> None:
    command = [str(build.folder / "bin/shoal-server"), "--scheduler", cluster.scheduler_address, "--name", name]
    command += ["--advertise", LOOPBACK, "--network-only", "--transports", "ucx-tcp"]
    cluster.start(command, build.environment).wait_for_line(SERVER_LISTENS)
    if build.version:
        assert f"ucx {build.version}:" in cluster.servers()[name]["transports"]


def digest_of_ranks(cluster: Cluster, job: str, builds: list[Build], report: pathlib.Path) -> str:
    """Of all-reduces of 8 MiB by ranks of these builds, checked."""
    ranks = []
    for rank, build in enumerate(builds):
        command = [str(build.folder / "bin/shoal-perf"), "--scheduler", cluster.scheduler_address, "--job", job]
        command += ["--world-size", str(len(builds)), "--rank", str(rank), "--min-servers", "2", "--network-only"]
        command += ["-b", "8M", "-n", "2", "-w", "1", "-c", "1", "--transports", "ucx-tcp", "--json", str(report)]
        ranks.append(cluster.start(command, build.environment))
    for rank in ranks:
        assert rank.wait(120) == 0, str(rank)
    [result] = json.loads(report.read_text())["results"]
    assert result["wrong"] == 0
    return result["digest"]


@pytest.fixture
def cluster():
    with Cluster() as started:
        started.start_scheduler()
        yield started


def cluster_digest(cluster: Cluster, servers: list[Build], ranks: list[Build], folder: pathlib.Path) -> str:
    for number, build in enumerate(servers):
        start_server(cluster, f"server-{number}", build)
    return digest_of_ranks(cluster, "test", ranks, folder / "report.json")


@pytest.fixture(scope="module")
def own_digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    with Cluster() as started:
        started.start_scheduler()
        return cluster_digest(started, [OWN, OWN], [OWN] * 3, tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_programs_give_the_same_bits(cluster: Cluster, version: str, own_digest: str, tmp_path: pathlib.Path):
    build = run_with(version)
    assert cluster_digest(cluster, [build, build], [build] * 3, tmp_path) == own_digest


def test_members_of_one_cluster_may_have_older_releases(cluster: Cluster, own_digest: str, tmp_path: pathlib.Path):
    older = run_with(VERSIONS[0])
    assert cluster_digest(cluster, [OWN, older], [older, OWN, OWN], tmp_path) == own_digest


@pytest.mark.parametrize("version", ["", VERSIONS[0]], ids=["1.13", VERSIONS[0]])
def test_a_release_that_others_do_not_understand_is_refused_by_name(cluster: Cluster, version: str):
    start_server(cluster, "server", run_with(version) if version else OWN)
    newest = run_with(NEWEST)
    command = [str(newest.folder / "bin/shoal-perf"), "--scheduler", cluster.scheduler_address, "--world-size", "1"]
    command += ["--rank", "0", "-b", "8M", "--network-only", "--transports", "ucx-tcp", "--timeout", "5"]
    rank = cluster.start(command, newest.environment)
    rank.wait_for_line(r'connects has "ucx=1\.22 .* and the one that listens "ucx=1\.18-or-older ')
    assert rank.wait() != 0
