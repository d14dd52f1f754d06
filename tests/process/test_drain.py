"""What operators do to servers and jobs with `shoalctl`: drain (F4), undrain, evict and abort. Real processes."""

import signal

from hosts.cluster import Cluster
from hosts.process import Process
from held_job import LEASE_TTL_MS, ROUNDS, start_held_job, undisturbed_digest
from job_runs import digests, let_go_on, wait_for_line_of_all


def ended_well(server: Process) -> bool:
    assert server.wait() == 0, f"{server}"
    return "although groups are open" not in server.output


def test_f4_drained_servers_leave_one_by_one_and_come_back_without_a_failed_op(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    options = ["--min-servers", "2"]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "drained", *options)
    done = 0
    for name in ("alpha", "beta"):
        let_go_on(ranks)  # an op may be under way, or not
        result = cluster.call_shoalctl("drain", name, "--wait", "--deadline", "30")
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


def test_f4_the_last_server_serves_its_groups_to_their_end(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha", "--drain-timeout", "60000")
    expected = undisturbed_digest(cluster)
    ranks = start_held_job(cluster, "served")
    result = cluster.call_shoalctl("drain", "alpha")
    assert result.returncode == 0, f"{result}"
    assert "WARNING: it is the last server of 1 open group(s)" in result.stdout
    cluster.told("F4", "drain-asked", "an operator asked this server to leave", server)
    cluster.told("F4", "server-draining", "^server alpha: an operator asked for it")
    assert cluster.servers()["alpha"]["state"] == "draining"
    again = cluster.call_shoalctl("drain", "alpha", "--wait", "--deadline", "0.5")
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
    assert cluster.call_shoalctl("drain", "alpha").returncode == 0
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
    unknown = cluster.call_shoalctl("drain", "beta")
    assert unknown.returncode == 1
    assert 'no server is named "beta"; live servers: alpha' in unknown.stderr
    server.send(signal.SIGKILL)
    cluster.wait_for_server("alpha", "lost")
    lost = cluster.call_shoalctl("drain", "alpha")
    assert lost.returncode == 1
    assert "server alpha is lost (no heartbeat" in lost.stderr


def test_a_server_that_drains_is_asked_to_stay_and_serves_as_before(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha", "--drain-timeout", "60000")
    expected = undisturbed_digest(cluster)
    ranks = start_held_job(cluster, "stayed")
    for _ in range(2):  # the second time all begins anew
        seen = len(server.lines_after(0))
        assert cluster.call_shoalctl("drain", "alpha").returncode == 0
        server.wait_for_line("an operator asked this server to leave", after=seen)
        answer = cluster.call_shoalctl("undrain", "alpha").stdout
        assert answer == "server alpha is asked to stay; it takes groups in when it has heard of it\n"
        # Before it hears of it, it leaves when its last group is closed.
        server.wait_for_line("an operator asked this server to stay", after=seen)
        assert cluster.servers()["alpha"]["state"] == "live"
    let_go_on(ranks, ROUNDS)
    assert digests(ranks) == expected
    # It takes groups in that it has never seen, and leaves as any other.
    assert undisturbed_digest(cluster) == expected
    server.send(signal.SIGTERM)
    assert ended_well(server)


def test_an_evicted_server_ends_and_no_op_fails(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    options = ["--min-servers", "2"]
    expected = undisturbed_digest(cluster, *options)
    ranks = start_held_job(cluster, "evicted", *options)
    let_go_on(ranks)
    assert cluster.call_shoalctl("evict", "beta").stdout.startswith("server beta is evicted")
    assert cluster.servers()["beta"]["state"] == "lost"
    assert servers["beta"].wait() == 1
    assert "an operator evicted server beta; start it again to let it join" in servers["beta"].output
    cluster.start_server("beta")
    assert cluster.servers()["beta"]["state"] == "live"
    let_go_on(ranks, ROUNDS - 1)
    assert digests(ranks) == expected


def test_an_evicted_server_ends_also_while_it_drains(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha", "--drain-timeout", "120000")
    start_held_job(cluster, "evicted")
    assert cluster.call_shoalctl("drain", "alpha").returncode == 0
    server.wait_for_line("an operator asked this server to leave")
    answer = cluster.call_shoalctl("evict", "alpha")
    assert "WARNING: 1 open group of it can't move yet" in answer.stdout, answer
    assert server.wait() == 1


def test_the_ranks_of_an_aborted_job_end_with_the_reason(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    ranks = start_held_job(cluster, "aborted")
    answer = cluster.call_shoalctl("abort", "aborted", "--reason", "the data is wrong")
    assert answer.returncode == 0, answer
    assert "job aborted is aborted: 1 open group of 4 live ranks failed" in answer.stdout
    let_go_on(ranks, ROUNDS)
    for rank in ranks:
        assert rank.wait() != 0
        assert 'an operator aborted job "aborted": the data is wrong' in rank.output
    shown = cluster.call_shoalctl("jobs").stdout
    assert 'job aborted: an operator aborted job "aborted": the data is wrong' in shown
