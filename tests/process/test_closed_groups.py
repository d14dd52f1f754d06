"""A job that makes and closes groups for as long as it runs: the scheduler keeps what is open, and nothing else."""

import pathlib
import re
import signal
import time

import pytest

from hosts.cluster import SANITIZER_RUNTIME, Cluster
from hosts.process import Process
from job_runs import digests, let_go_on, refusal, wait_for_line_of_all

GROUPS = 2000
PATIENCE_S = 120.0  # for what takes ten seconds on an idle machine
PATIENCE_OF_OPS_S = 60.0  # as rank_program.py has it
MADE_AND_CLOSED = "^made and closed %d groups$"
# What a process may grow by that has done three tenths of the work: allocators settle.
MOST_GROWTH_BYTES = 8 << 20


def wait_for_churn(ranks: list[Process], groups: int) -> None:
    for rank in ranks:
        rank.wait_for_line(MADE_AND_CLOSED % groups, PATIENCE_S)


def open_groups(cluster: Cluster) -> list[str]:
    jobs = [job for document in cluster.shoalctl("jobs") for job in document["jobs"]]
    return [group["name"] for job in jobs for group in job["groups"]]


@pytest.mark.long
def test_f1_thousands_of_closed_groups_cost_the_oldest_one_nothing(cluster: Cluster, tmp_path: pathlib.Path):
    state = tmp_path / "state"
    scheduler = cluster.start_scheduler("--state-file", str(state), lease_ttl_ms=1500)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    ranks = cluster.start_ranks(2, "--churn", str(GROUPS), "--min-servers", "2", "--rounds", "3", "--hold")
    wait_for_churn(ranks, 3 * GROUPS // 10)
    early = {process: process.resident_bytes() for process in [scheduler, *servers.values(), *ranks]}
    early_state_bytes = state.stat().st_size
    wait_for_churn(ranks, GROUPS)
    cluster.wait_until(lambda: open_groups(cluster) == ["world"], "the closed groups are gone at the scheduler")
    cluster.told("F19", "group-closed", r'^group "churn-\d+" of job "test": all its ranks closed it')
    grown = {str(process): process.resident_bytes() - before for process, before in early.items()}
    # AddressSanitizer keeps what was freed.
    assert SANITIZER_RUNTIME or max(grown.values()) < MOST_GROWTH_BYTES, grown
    assert state.stat().st_size < early_state_bytes + 4096

    wait_for_line_of_all(ranks, "^round 0 done$")
    servers["alpha"].send(signal.SIGKILL)
    let_go_on(ranks, 3)
    assert len(digests(ranks)) == 1
    moves = cluster.wait_for_move("test", 1)
    assert {move["subject"] for move in moves} == {'group "world" of job "test"'}


@pytest.mark.parametrize("way", [["--network-only"], [], ["--node-reduce", "host"]], ids=["network", "server", "node"])
def test_f24_who_makes_fewer_calls_and_leaves_is_named_at_once(cluster: Cluster, way: list[str]):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = [cluster.start_rank(rank, 3, "--rounds", "2" if rank == 1 else "5", *way) for rank in range(3)]
    begin = time.monotonic()
    for rank in (0, 2):
        assert re.search(r"^ABORTED: .*rank 1( of the job)? on .*has (left|closed) the group", refusal(ranks[rank]))
    assert time.monotonic() - begin < PATIENCE_OF_OPS_S / 2
    assert ranks[1].wait() == 0
