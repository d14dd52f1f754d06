"""Servers that die, stand still, leave and come while ranks reduce: nobody fails, and the bits are the undisturbed ones."""

import signal
import time

import pytest

from cluster import Cluster, Process
from test_job import WORLD_SIZE, digests, wait_for_line_of_all

LEASE_TTL_MS = 1500
ROUNDS = 10
OPTIONS = ["--count", "150001", "--rounds", str(ROUNDS), "--hold"]


def start_job(cluster: Cluster, job: str, *options: str) -> list[Process]:
    return cluster.start_ranks(WORLD_SIZE, "--job", job, *OPTIONS, *options)


def let_go_on(ranks: list[Process], rounds: int = 1) -> None:
    for rank in ranks:
        for _ in range(rounds):
            rank.say()


def undisturbed(cluster: Cluster, *options: str) -> set[str]:
    ranks = start_job(cluster, "undisturbed", *options)
    let_go_on(ranks, ROUNDS)
    found = digests(ranks)
    assert len(found) == 1
    return found


def wait_for_move(cluster: Cluster, job: str, count: int) -> list[dict]:
    """Until the group of the job was moved so often."""

    def moves() -> list[dict] | None:
        found = [e for e in cluster.events() if e["kind"] == "group-moved" and f'job "{job}"' in e["subject"]]
        return found if len(found) >= count else None

    return cluster.wait_until(moves, f"{count} moves of the group of {job}")


def bytes_out(cluster: Cluster, name: str) -> int:
    return int(cluster.servers()[name].get("load", {}).get("bytes_out", 0))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_f2_servers_killed_in_the_middle_of_an_op_down_to_the_last(cluster: Cluster, network: list[str]):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta", "gamma")}
    options = ["--min-servers", "3", *network]
    expected = undisturbed(cluster, *options)
    ranks = start_job(cluster, "killed", *options)
    wait_for_line_of_all(ranks, "^round 0 done$")
    for number, name in enumerate(["beta", "alpha"]):
        # It stands still first, so that an op is under way for sure when it dies.
        servers[name].send(signal.SIGSTOP)
        let_go_on(ranks)
        servers[name].send(signal.SIGKILL)
        wait_for_line_of_all(ranks, f"^round {number + 1} done$")
    wait_for_move(cluster, "killed", 2)
    restarted = cluster.start_server("beta")
    moves = wait_for_move(cluster, "killed", 3)
    assert "with 2 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - 2)
    assert digests(ranks) == expected
    assert restarted.running()
    cluster.wait_until(lambda: bytes_out(cluster, "beta") > 0, "the restarted server has served")


@pytest.mark.timeout(300)
def test_f3_a_server_that_stands_still_is_done_without_and_may_come_back(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    stopped = cluster.start_server("alpha")
    cluster.start_server("beta")
    options = ["--min-servers", "2"]
    expected = undisturbed(cluster, *options)
    ranks = start_job(cluster, "stopped", *options)
    wait_for_line_of_all(ranks, "^round 0 done$")
    stopped.send(signal.SIGSTOP)
    let_go_on(ranks, 2)
    wait_for_line_of_all(ranks, "^round 2 done$")
    stopped.send(signal.SIGCONT)
    moves = wait_for_move(cluster, "stopped", 2)
    assert "with 2 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - 2)
    assert digests(ranks) == expected


@pytest.mark.timeout(300)
def test_f4_servers_are_restarted_one_by_one_and_added_without_a_failed_op(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    options = ["--min-servers", "2"]
    expected = undisturbed(cluster, *options)
    ranks = start_job(cluster, "rolling", *options)
    wait_for_line_of_all(ranks, "^round 0 done$")
    done = 0
    for name in ("alpha", "beta"):
        servers[name].send(signal.SIGTERM)
        let_go_on(ranks)
        assert servers[name].wait() == 0, f"{servers[name]}"
        assert "with open groups" not in servers[name].output, "its group has moved: nothing is to be waited for"
        done += 1
        wait_for_line_of_all(ranks, f"^round {done} done$")
        servers[name] = cluster.start_server(name)
    cluster.start_server("gamma")
    moves = wait_for_move(cluster, "rolling", 5)
    assert "with 3 shards" in moves[-1]["reason"]
    let_go_on(ranks, ROUNDS - done)
    assert digests(ranks) == expected
    cluster.wait_until(lambda: bytes_out(cluster, "gamma") > 0, "the added server has served")


@pytest.mark.timeout(120)
def test_f12_everybody_shows_up_within_the_one_lease_that_a_restarted_scheduler_gives(cluster: Cluster, tmp_path):
    state_file = str(tmp_path / "state")
    scheduler = cluster.start_scheduler("--state-file", state_file, lease_ttl_ms=LEASE_TTL_MS)
    address = cluster.scheduler_address
    server = cluster.start_server("alpha")
    ranks = start_job(cluster, "kept")
    wait_for_line_of_all(ranks, "^round 0 done$")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    let_go_on(ranks)
    wait_for_line_of_all(ranks, "^round 1 done$")
    server.wait_for_line("no lease from the scheduler")  # the ranks have asked in vain for as long
    cluster.start_scheduler("--state-file", state_file, listen=address, lease_ttl_ms=LEASE_TTL_MS)
    back_at = time.monotonic()
    cluster.wait_until(lambda: time.monotonic() > back_at + 1.5 * LEASE_TTL_MS / 1000, "all leases were renewed, or ran out")
    kinds = {event["kind"] for event in cluster.events()}
    assert kinds.isdisjoint({"server-lost", "rank-lost"}), kinds
    let_go_on(ranks, ROUNDS - 1)
    assert len(digests(ranks)) == 1
