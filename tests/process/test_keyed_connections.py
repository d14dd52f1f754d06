"""Who may connect to a server: who has a ticket of the server's own scheduler, and moves data as the server does."""

import signal
import subprocess

from hosts.cluster import Cluster


def measure_way(cluster: Cluster, address: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [cluster.program("shoal-perf"), "--way", address, "--timeout", "5", *options]
    return cluster.call(command)


def test_a_ticket_of_another_cluster_opens_no_connection(cluster: Cluster):
    cluster.start_scheduler()
    own = cluster.scheduler_address
    server = cluster.start_server("alpha", "--network-only")
    (address,) = cluster.servers()["alpha"]["addresses"]
    assert measure_way(cluster, address, "--scheduler", own).returncode == 0

    cluster.start_scheduler()
    assert cluster.scheduler_address != own
    refused = measure_way(cluster, address, "--scheduler", cluster.scheduler_address)
    assert refused.returncode == 1
    assert address in refused.stderr and "both must belong to the same scheduler" in refused.stderr
    server.wait_for_line("strangers-turned-away")
    assert measure_way(cluster, address, "--scheduler", own).returncode == 0


def test_without_a_scheduler_there_is_no_ticket(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha", "--network-only")
    (address,) = cluster.servers()["alpha"]["addresses"]
    refused = measure_way(cluster, address, "--scheduler", "")
    assert refused.returncode == 1 and "options->scheduler" in refused.stderr


def test_a_scheduler_that_lost_its_state_gives_keys_that_its_servers_take(cluster: Cluster):
    """They register anew, and are told of its key then."""
    first = cluster.start_scheduler(lease_ttl_ms=1500)
    address_of_scheduler = cluster.scheduler_address
    server = cluster.start_server("alpha", "--network-only")
    (address,) = cluster.servers()["alpha"]["addresses"]
    first.send(signal.SIGKILL)
    first.wait()
    cluster.start_scheduler(listen=address_of_scheduler, lease_ttl_ms=1500)
    server.wait_for_line("token-key-changed")

    def is_let_in() -> bool:
        return measure_way(cluster, address, "--scheduler", address_of_scheduler).returncode == 0

    cluster.wait_until(is_let_in, "a connection with a ticket of the new key")
    ranks = cluster.start_ranks(2, "--timeout-ms", "20000", "--network-only")
    for rank in ranks:
        assert rank.wait() == 0, f"{rank}"


def test_a_cluster_that_encrypts_says_so(cluster: Cluster):
    cluster.start_scheduler("--encrypt")
    cluster.start_server("alpha", "--network-only")
    ranks = cluster.start_ranks(2, "--timeout-ms", "20000", "--network-only", "--hold")
    cluster.wait_until(
        lambda: cluster.servers()["alpha"]["load"]["transports"].startswith("sockets, encrypted: tcp/lo"),
        "the server says that its connections are encrypted",
    )
    for rank in ranks:
        rank.say()
    for rank in ranks:
        assert rank.wait() == 0, f"{rank}"
