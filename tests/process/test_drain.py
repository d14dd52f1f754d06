"""`shoalctl drain`: servers leave while ranks reduce, and nobody fails (F4). Real processes."""

import signal
import subprocess

import pytest

from cluster import PATIENCE_S, Cluster, Process, program
from held_job import LEASE_TTL_MS, ROUNDS, start_held_job, undisturbed_digest
from job_runs import digests, let_go_on, wait_for_line_of_all


def drain(cluster: Cluster, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [program("shoalctl"), "--scheduler", cluster.scheduler_address, "drain", name, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def ended_well(server: Process) -> bool:
    assert server.wait() == 0, f"{server}"
    return "although groups are open" not in server.output


@pytest.mark.timeout(300)
def test_f4_drained_servers_leave_one_by_one_and_come_back_without_a_failed_op(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    options = ["--min-servers", "2"]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "drained", *options)
    wait_for_line_of_all(ranks, "^round 0 done$")
    done = 0
    for name in ("alpha", "beta"):
        let_go_on(ranks)  # an op may be under way, or not
        result = drain(cluster, name, "--wait", "--deadline", "30")
        assert result.returncode == 0, f"{result}\n{servers[name]}"
        assert result.stdout.startswith(f"server {name} drains\n")
        assert result.stdout.endswith(f"server {name} has left\n")
        assert ended_well(servers[name]), "its group has moved: nothing is to be waited for"
        done += 1
        wait_for_line_of_all(ranks, f"^round {done} done$")
        before = cluster.servers()[name]
        assert (before["state"], before["reason"]) == ("left", "shoalctl drain")
        servers[name] = cluster.start_server(name)
        after = cluster.servers()[name]
        assert (after["state"], after["server_id"]) == ("live", before["server_id"]), "its next life joins again"
    cluster.wait_for_move("drained", 4)
    let_go_on(ranks, ROUNDS - done)
    assert digests(ranks) == expected


@pytest.mark.timeout(300)
def test_f4_the_last_server_serves_its_groups_to_their_end(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha", "--drain-timeout", "60000")
    expected = undisturbed_digest(cluster)
    ranks = start_held_job(cluster, "served")
    wait_for_line_of_all(ranks, "^round 0 done$")
    result = drain(cluster, "alpha")
    assert result.returncode == 0, f"{result}"
    assert "WARNING: it is the last server of 1 open group(s)" in result.stdout
    server.wait_for_line("an operator asked this server to leave")
    assert cluster.servers()["alpha"]["state"] == "draining"
    again = drain(cluster, "alpha", "--wait", "--deadline", "0.5")
    assert again.returncode == 1
    assert "server alpha drains already" in again.stdout
    assert "1 group(s) open, and continues to drain" in again.stderr
    let_go_on(ranks, ROUNDS)
    assert digests(ranks) == expected
    assert ended_well(server)
    assert cluster.servers()["alpha"]["state"] == "left"


def test_a_draining_server_is_known_to_a_scheduler_that_was_restarted(cluster: Cluster, tmp_path):
    state_file = str(tmp_path / "state")
    scheduler = cluster.start_scheduler("--state-file", state_file, lease_ttl_ms=4 * LEASE_TTL_MS)
    address = cluster.scheduler_address
    server = cluster.start_server("alpha")
    server.send(signal.SIGSTOP)
    assert drain(cluster, "alpha").returncode == 0
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    cluster.start_scheduler("--state-file", state_file, listen=address, lease_ttl_ms=4 * LEASE_TTL_MS)
    assert cluster.servers()["alpha"]["state"] == "draining"
    server.send(signal.SIGCONT)
    assert ended_well(server)
    assert cluster.wait_for_server("alpha", "left")["reason"] == "shoalctl drain"


def test_what_cannot_be_drained_is_said(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    unknown = drain(cluster, "beta")
    assert unknown.returncode == 1
    assert 'no server is named "beta"; live servers: alpha' in unknown.stderr
    server.send(signal.SIGKILL)
    cluster.wait_for_server("alpha", "lost")
    lost = drain(cluster, "alpha")
    assert lost.returncode == 1
    assert "server alpha is lost (no heartbeat" in lost.stderr
