"""What people and strangers get wrong: each has an error that says what and where, and leaves servers serving."""

import pathlib
import re
import socket

import pytest

from hosts.cluster import Cluster, program
from hosts.node import LOOPBACK
from garbage import pour_garbage

NO_SCHEDULER = f"{LOOPBACK}:1"  # nobody listens on a port that only root may take
UNROUTED_ADDRESS = "203.0.113.7"  # for documentation (RFC 5737): no machine has it


def last_line(process) -> str:
    return process.output.splitlines()[-1]


def test_no_scheduler_within_the_timeout(cluster: Cluster):
    server = cluster.launch_server("--timeout", "1500", scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert f"not registered with the scheduler at {NO_SCHEDULER} within 1.5 s: Connection refused" in server.output


def test_scheduler_that_does_not_answer(cluster: Cluster):
    with socket.create_server((LOOPBACK, 0)) as silent:
        address = f"{LOOPBACK}:{silent.getsockname()[1]}"
        server = cluster.launch_server("--timeout", "1500", scheduler=address)
        assert server.wait() == 1
    assert f"not registered with the scheduler at {address} within 1.5 s: no answer" in server.output


def test_scheduler_whose_name_is_unknown(cluster: Cluster):
    server = cluster.launch_server("--timeout", "1500", scheduler="scheduler.invalid:7070")
    assert server.wait() == 1
    assert re.search(r"waited [\d.]+ s for the scheduler at scheduler\.invalid:7070 \(", server.output)


def test_port_taken(cluster: Cluster):
    cluster.start_scheduler()
    with socket.create_server((LOOPBACK, 0)) as holder:
        port = holder.getsockname()[1]
        server = cluster.launch_server("--port-base", str(port), "--timeout", "500")
        assert server.wait() == 1
    assert f"{LOOPBACK}:{port}: another process has this port" in last_line(server)


def test_address_of_another_machine(cluster: Cluster):
    server = cluster.launch_server(scheduler=NO_SCHEDULER, advertise=UNROUTED_ADDRESS)
    assert server.wait() == 1
    assert f"--advertise {UNROUTED_ADDRESS} is not an address of this node" in last_line(server)
    assert f"{LOOPBACK} on lo" in last_line(server), "says which addresses it has"


def test_rdma_where_there_is_none(cluster: Cluster):
    if pathlib.Path("/sys/class/infiniband").exists():
        pytest.skip("this machine has RDMA devices")
    server = cluster.launch_server("--transports", "rc", scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert 'UCX has no transport for transports="rc"' in last_line(server)
    assert "without RDMA use transports=tcp" in last_line(server)


@pytest.mark.parametrize("wrong", ["rc,tcp", "all", "carrierpigeon"])
def test_transports_that_are_not_rdma_alone(cluster: Cluster, wrong: str):
    server = cluster.launch_server("--transports", wrong, scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert f'transports="{wrong}": give tcp alone, for sockets, or transports of UCX over RDMA' in last_line(server)


@pytest.mark.parametrize("wrong", ["0.0.0.0", "::", "localhost", "127.0.0.1:80", "nonsense"])
def test_address_that_workers_could_not_use(cluster: Cluster, wrong: str):
    server = cluster.launch_server(scheduler=NO_SCHEDULER, advertise=wrong)
    assert server.wait() == 1
    assert "--advertise" in last_line(server)
    assert wrong in last_line(server)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--net-device", "eth987", "eth987"),
        ("--transports", "pigeon", "pigeon"),
        ("--slot-memory", "1000T", "no memory for slots"),
    ],
)
def test_what_this_machine_does_not_have_is_named(cluster: Cluster, option: str, value: str, text: str):
    server = cluster.launch_server(option, value, scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert text in last_line(server)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--shceduler", "h:1"], "unknown option --shceduler (did you mean --scheduler?)"),
        (["--scheduler", "h:1"], "give --advertise IP"),
        (["--advertise", LOOPBACK], "give --scheduler HOST:PORT"),
        (["--scheduler", "nonsense", "--advertise", LOOPBACK], "HOST:PORT"),
        (["--scheduler=h:1", "--advertise", LOOPBACK, "--io-threads=many"], '--io-threads: "many" is no whole number'),
        (["--scheduler", "h:1", "--advertise", LOOPBACK, "--slot-memory", "1X"], '--slot-memory: "1X" is not a size'),
        (["--scheduler"], "--scheduler needs a value"),
        (["start"], 'unexpected argument "start"'),
    ],
)
def test_wrong_usage(cluster: Cluster, options: list[str], text: str):
    server = cluster.start([program("shoal-server"), *options])
    assert server.wait() == 2
    assert text in server.output


def test_help_lists_every_option_with_default_and_unit(cluster: Cluster):
    server = cluster.start([program("shoal-server"), "--help"])
    assert server.wait() == 0
    entry = r"^  --([a-z-]+)( [A-Z:_]+)?\n(?:      .+\n)+?      Default: (.*)$"
    options = re.findall(entry, server.output, re.MULTILINE)
    names = [name for name, _, _ in options]
    for name in ["scheduler", "advertise", "io-threads", "slot-memory", "port-base", "drain-timeout", "timeout"]:
        assert name in names
    assert server.output.count("\n  --") == len(options), "each option has its help and its default"


def test_i7_f15_garbage_leaves_scheduler_and_server_serving(cluster: Cluster):
    """While the strangers still hang on, known members go on and new ones can come."""
    scheduler = cluster.start_scheduler(lease_ttl_ms=1500)
    server = cluster.start_server("alpha", "--io-threads", "2")
    before = cluster.servers()["alpha"]
    held = []
    for address in [cluster.scheduler_address, *before["addresses"]]:
        held += pour_garbage(address)
    cluster.start_server("beta")
    assert server.running()
    ranks = cluster.start_ranks(2, "--min-servers", "2", "--timeout-ms", "20000")
    for rank in ranks:
        assert rank.wait() == 0, f"{rank}"
    after = cluster.servers()["alpha"]
    assert (after["state"], after["registered_at_unix_ms"]) == ("live", before["registered_at_unix_ms"])
    assert scheduler.running()
    assert server.running()
    for connection in held:
        connection.close()
