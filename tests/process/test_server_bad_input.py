"""What people and strangers get wrong: each has an error that says what and where, and leaves servers serving."""

import random
import re
import socket
import struct

import pytest

from cluster import LOOPBACK, SERVER_LISTENS, Cluster, program

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
    assert "waiting for scheduler at scheduler.invalid:7070:" in server.output


def test_port_taken(cluster: Cluster):
    cluster.start_scheduler()
    with socket.create_server((LOOPBACK, 0)) as holder:
        port = holder.getsockname()[1]
        server = cluster.launch_server("--port-base", str(port))
        assert server.wait() == 1
    assert f"{LOOPBACK}:{port}: another process has this port" in last_line(server)


def test_address_of_another_machine(cluster: Cluster):
    server = cluster.launch_server(scheduler=NO_SCHEDULER, advertise=UNROUTED_ADDRESS)
    assert server.wait() == 1
    assert f"--advertise {UNROUTED_ADDRESS} is not an address of this machine" in last_line(server)
    assert f"{LOOPBACK} on lo" in last_line(server), "says which addresses it has"


@pytest.mark.parametrize("wrong", ["0.0.0.0", "::", "localhost", "127.0.0.1:80", "nonsense"])
def test_address_that_workers_could_not_use(cluster: Cluster, wrong: str):
    server = cluster.launch_server(scheduler=NO_SCHEDULER, advertise=wrong)
    assert server.wait() == 1
    assert "--advertise" in last_line(server)
    assert wrong in last_line(server)


def test_unknown_network_device(cluster: Cluster):
    server = cluster.launch_server("--net-device", "eth987", scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert "eth987" in last_line(server)


def test_unknown_transport(cluster: Cluster):
    server = cluster.launch_server("--transports", "pigeon", scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert "pigeon" in last_line(server)


def test_more_slot_memory_than_the_machine_has(cluster: Cluster):
    server = cluster.launch_server("--slot-memory", "1000T", scheduler=NO_SCHEDULER)
    assert server.wait() == 1
    assert "no memory for slots" in last_line(server)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--shceduler", "h:1"], "unknown option --shceduler (did you mean --scheduler?)"),
        (["--scheduler", "h:1"], "give --advertise IP"),
        (["--advertise", LOOPBACK], "give --scheduler HOST:PORT"),
        (["--scheduler", "nonsense", "--advertise", LOOPBACK], "HOST:PORT"),
        (["--scheduler", "h:1", "--advertise", LOOPBACK, "--io-threads", "many"], "--io-threads takes a whole number"),
        (["--scheduler", "h:1", "--advertise", LOOPBACK, "--slot-memory", "1X"], "--slot-memory takes a size"),
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
    options = re.findall(r"^  --([a-z-]+)( [A-Z:_]+)?\n      .+\n      Default: (.*)$", server.output, re.MULTILINE)
    names = [name for name, _, _ in options]
    for name in ["scheduler", "advertise", "io-threads", "slot-memory", "port-base", "drain-timeout", "timeout"]:
        assert name in names
    assert server.output.count("\n  --") == len(options), "each option has its help and its default"


HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def garbage_streams() -> list[bytes]:
    """What a port scanner, a lost client or a broken peer may send. Fixed seed."""
    source = random.Random(20)
    streams = [source.randbytes(4096), source.randbytes(1), b"\0" * 65536, b"\xff" * 4096]
    streams.append(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    streams.append(HTTP2_PREFACE[:12])
    streams.append(HTTP2_PREFACE + struct.pack(">I", 0xFFFFFF)[1:] + b"\x00\x00\x00\x00\x00\x00" + source.randbytes(512))
    # Lengths in front, as UCX's TCP and connection manager have them: absurd, negative, and one that never fills up.
    for length in (0, 1, 8, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20):
        streams.append(struct.pack("<I", length) + source.randbytes(300))
        streams.append(struct.pack("<Q", length) + struct.pack("<Q", 0xFEEDBEEF) + source.randbytes(300))
    return streams


def pour_garbage(address: str) -> list[socket.socket]:
    """Sends each stream on a connection of its own, some cut off at once, and returns those that stay open."""
    host, port = address.rsplit(":", 1)
    held = []
    for number, stream in enumerate(garbage_streams()):
        connection = socket.create_connection((host, int(port)), timeout=10)
        try:
            connection.sendall(stream)
        except OSError:
            pass  # it hung up, as it should
        if number % 3 == 0:
            # A reset instead of an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        else:
            held.append(connection)
    held.append(socket.create_connection((host, int(port)), timeout=10))  # connects and hangs
    return held


def test_garbage_leaves_scheduler_and_server_serving(cluster: Cluster):
    scheduler = cluster.start_scheduler(lease_ttl_ms=1500)
    server = cluster.start_server("alpha", "--io-threads", "2")
    held = []
    for address in [cluster.scheduler_address, *server.wait_for_line(SERVER_LISTENS).group(2).split(",")]:
        held += pour_garbage(address)
    # While the strangers still hang on: a lease's time passes and the server is there, another one can come and go.
    heartbeats_before = cluster.servers()["alpha"]["registered_at_unix_ms"]
    cluster.start_server("beta")
    cluster.wait_for_server("beta", "live")
    assert cluster.servers()["alpha"]["state"] == "live"
    assert cluster.servers()["alpha"]["registered_at_unix_ms"] == heartbeats_before
    assert scheduler.running()
    assert server.running()
    for connection in held:
        connection.close()
