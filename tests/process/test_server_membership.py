"""A server's place in the cluster: how it comes, goes, is lost and comes back. Real processes."""

import re
import signal
import time

import pytest

from hosts.cluster import PROCESS_OF, SERVER_LISTENS, Cluster
from hosts.node import LOOPBACK

LEASE_TTL_MS = 1500


def test_server_registers_and_is_shown(cluster: Cluster):
    cluster.start_scheduler()
    server = cluster.start_server("alpha", "--io-threads", "2", "--slot-memory", "64M")
    addresses = server.wait_for_line(SERVER_LISTENS).group(2).split(",")
    assert len(addresses) == 2
    shown = cluster.servers()["alpha"]
    assert shown["state"] == "live"
    assert shown["addresses"] == addresses
    assert int(shown["slot_memory_bytes"]) == 64 << 20
    assert "tcp" in shown["transports"]
    (shard_map,) = cluster.shoalctl("map")
    assert sorted(shard["address"] for shard in shard_map["shards"]) == sorted(addresses)


def test_servers_without_a_name_get_names_of_their_own(cluster: Cluster):
    cluster.start_scheduler()
    names = {cluster.launch_server().wait_for_line(SERVER_LISTENS).group(1) for _ in range(2)}
    assert len(names) == 2
    assert {name for name, server in cluster.servers().items() if server["state"] == "live"} == names


def test_server_may_start_before_the_scheduler(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    address = cluster.scheduler_address
    scheduler.send(signal.SIGTERM)
    assert scheduler.wait() == 0
    server = cluster.launch_server("--name", "early")
    server.wait_for_line(
        rf"waited [\d.]+ s for the scheduler at {re.escape(address)} \([\d.]+ s left\): Connection refused"
    )
    cluster.start_scheduler(listen=address)
    server.wait_for_line(SERVER_LISTENS)
    assert cluster.servers()["early"]["state"] == "live"


def test_i6_server_outlives_a_scheduler_that_kept_its_state(cluster: Cluster, tmp_path):
    state_file = str(tmp_path / "state")
    scheduler = cluster.start_scheduler("--state-file", state_file, lease_ttl_ms=LEASE_TTL_MS)
    address = cluster.scheduler_address
    server = cluster.start_server("alpha")
    before, epoch_before = cluster.servers()["alpha"], cluster.epoch()
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    server.wait_for_line("no lease from the scheduler")
    cluster.start_scheduler("--state-file", state_file, listen=address, lease_ttl_ms=LEASE_TTL_MS)
    server.wait_for_line("answers again after")
    after = cluster.servers()["alpha"]
    assert after["state"] == "live"
    assert PROCESS_OF(after) == PROCESS_OF(before)
    assert cluster.epoch() == epoch_before, "nothing changed, so no new map"


def test_server_registers_again_with_a_scheduler_that_lost_its_state(cluster: Cluster):
    scheduler = cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    address = cluster.scheduler_address
    server = cluster.start_server("alpha")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    cluster.start_scheduler(listen=address, lease_ttl_ms=LEASE_TTL_MS)
    server.wait_for_line("registered again with the scheduler")
    server.wait_for_line("WARNING server token-key-changed: the scheduler at .* signs with another key")
    cluster.wait_for_server("alpha", "live")
    assert server.running()


def test_killed_server_is_lost_within_its_lease(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    server.send(signal.SIGKILL)
    killed_at = time.monotonic()
    lost = cluster.wait_for_server("alpha", "lost")
    assert time.monotonic() - killed_at < LEASE_TTL_MS / 1000 + 1
    assert "no heartbeat" in lost["reason"]
    event = cluster.wait_for_event("server-lost", "alpha")
    assert "no heartbeat" in event["reason"]
    (shard_map,) = cluster.shoalctl("map")
    assert shard_map.get("shards", []) == []


def test_frozen_server_comes_back_under_its_old_identity(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    server = cluster.start_server("alpha")
    before = cluster.servers()["alpha"]
    server.send(signal.SIGSTOP)
    cluster.wait_for_server("alpha", "lost")
    server.send(signal.SIGCONT)
    server.wait_for_line("registered again with the scheduler")
    after = cluster.wait_for_server("alpha", "live")
    assert PROCESS_OF(after) == PROCESS_OF(before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signalled_server_leaves_in_good_order(cluster: Cluster, number: signal.Signals):
    cluster.start_scheduler()
    server = cluster.start_server("alpha")
    server.send(number)
    assert server.wait() == 0
    left = cluster.servers()["alpha"]
    assert (left["state"], left["reason"]) == ("left", number.name)
    assert number.name in cluster.wait_for_event("server-left", "alpha")["reason"]


def test_signalled_server_that_still_waits_for_a_scheduler_ends_at_once(cluster: Cluster):
    server = cluster.launch_server("--timeout", "600000", scheduler=f"{LOOPBACK}:1")
    server.wait_for_line("s for the scheduler")
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert f"stopped before the scheduler at {LOOPBACK}:1 answered" in server.output


def test_signalled_server_ends_while_the_scheduler_is_away(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    server = cluster.start_server("alpha")
    scheduler.send(signal.SIGSTOP)
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert "could not tell the scheduler" in server.output


def test_restarted_server_takes_its_name_again_and_the_old_process_ends(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    old = cluster.start_server("alpha")
    before = cluster.servers()["alpha"]
    cluster.start_server("alpha")
    assert old.wait() == 1
    assert "took the place of server alpha" in old.output
    after = cluster.servers()["alpha"]
    assert after["state"] == "live"
    assert after["server_id"] == before["server_id"]
    assert after["registered_at_unix_ms"] != before["registered_at_unix_ms"]
