"""Links break and mend as they are told, also when faults overlap; the impaired link does what it says. Needs root."""

import contextlib
import sys
import time
from collections.abc import Iterator

import pytest

from chaos.impaired_link import NEEDS_CHECKSUM, VNET_HEADER, Impairment
from chaos.links import Links
from hosts.cluster import need_root
from hosts.network import make_named_nodes
from hosts.node import HostError
from hosts.process import Process, Processes


NODES = ["one", "two", "three"]
RECEIVER = """
import hashlib, socket, sys
with socket.create_server((sys.argv[1], 5000)) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    digest, size = hashlib.sha256(), 0
    while data := connection.recv(1 << 16):
        digest.update(data)
        size += len(data)
    print(size, digest.hexdigest(), flush=True)
"""
SENDER = """
import hashlib, random, socket, sys
data = random.Random(1).randbytes(int(sys.argv[2]))
with socket.create_connection((sys.argv[1], 5000), timeout=30) as connection:
    connection.sendall(data)
print(len(data), hashlib.sha256(data).hexdigest(), flush=True)
"""

# Until its input says enough.
ENDLESS_SENDER = """
import hashlib, random, select, socket, sys
data, digest, size = random.Random(1).randbytes(1 << 20), hashlib.sha256(), 0
with socket.create_connection((sys.argv[1], 5000), timeout=30) as connection:
    connection.settimeout(None)
    while not select.select([sys.stdin], [], [], 0)[0]:
        connection.sendall(data)
        digest.update(data)
        size += len(data)
print(size, digest.hexdigest(), flush=True)
"""


@pytest.fixture
def links() -> Iterator[Links]:
    need_root("chaos")
    network, nodes = make_named_nodes(NODES)
    with network, contextlib.closing(Links(network, nodes, 1)) as made:
        yield made


def heard(links: Links, sender: str, receiver: str) -> bool:
    """Whether a datagram gets through: a second after it was sent it has, or never will."""
    program = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 4000)); s.settimeout(60)\n"
        "print('ready', flush=True)\n"
        "s.recv(10)\n"
    )
    address = links.nodes[receiver].address
    send = f"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ({address!r}, 4000))"
    with Processes() as processes:
        listener = processes.start([sys.executable, "-c", program, address], node=links.nodes[receiver])
        listener.wait_for_line("^ready$")
        with contextlib.suppress(HostError):
            links.nodes[sender].run([sys.executable, "-c", send])
            return listener.wait(1.0) == 0
    return False


def start_receiver(links: Links, processes: Processes) -> Process:
    receiver = processes.start([sys.executable, "-c", RECEIVER, links.nodes["two"].address], node=links.nodes["two"])
    receiver.wait_for_line("^ready$")
    return receiver


def transfer(links: Links, size: int) -> tuple[str, str]:
    """What the receiver got and what the sender gave, from one to two."""
    with Processes() as processes:
        receiver = start_receiver(links, processes)
        sent = links.nodes["one"].run([sys.executable, "-c", SENDER, links.nodes["two"].address, str(size)])
        return what_it_gave(receiver), sent.strip()


def what_it_gave(process: Process) -> str:
    assert process.wait(60) == 0, process
    return process.output.splitlines()[-1]


def test_a_silent_node_is_heard_by_nobody_until_the_last_fault_is_mended(links: Links):
    assert heard(links, "one", "two")
    links.silence("one", True)
    links.silence("one", True)
    assert not heard(links, "one", "two") and not heard(links, "two", "one")
    links.silence("one", False)
    assert not heard(links, "one", "two"), "a second fault is still open"
    links.silence("one", False)
    assert heard(links, "one", "two") and heard(links, "two", "three")


def test_one_way_is_cut_and_the_other_is_not(links: Links):
    assert heard(links, "one", "two") and heard(links, "two", "one")
    links.block("one", "two", True)
    assert not heard(links, "one", "two")
    assert heard(links, "two", "one") and heard(links, "one", "three")
    links.block("one", "two", False)
    assert heard(links, "one", "two")


def test_a_pulled_cable_and_a_silent_one_are_both_mended_before_anything_is_heard(links: Links):
    links.pull("two", True)
    links.silence("two", True)
    links.pull("two", False)
    assert not heard(links, "one", "two")
    links.silence("two", False)
    assert heard(links, "one", "two")


@pytest.mark.parametrize(
    "wrong",
    [("link-loss", 5.0), ("link-delay", 20.0), ("link-reorder", 25.0), ("link-duplicate", 20.0), ("link-corrupt", 2.0)],
    ids=lambda wrong: wrong[0],
)
def test_tcp_gets_everything_through_an_impaired_link(links: Links, wrong: tuple[str, float]):
    kind, amount = wrong
    links.impair("one", {"kind": kind, "amount": amount}, True)
    began = time.monotonic()
    got, sent = transfer(links, 1 << 20)
    assert got == sent
    if kind == "link-delay":
        assert time.monotonic() - began > 0.08, "a connection and its data need two round trips at least"
    links.impair("one", {"kind": kind, "amount": amount}, False)
    got, sent = transfer(links, 1 << 20)
    assert got == sent


def test_a_payload_is_changed_so_that_tcp_does_not_see_it(links: Links):
    wrong = {"kind": "payload-corrupt", "amount": 50.0, "control_ports": [5001]}
    links.impair("one", wrong, True)
    got, sent = transfer(links, 1 << 20)
    assert got.split()[0] == sent.split()[0] and got != sent
    links.impair("one", wrong, False)
    links.impair("one", {**wrong, "control_ports": [5000]}, True)
    got, sent = transfer(links, 1 << 20)
    assert got == sent, "the control plane's payload is left alone"


def test_a_slow_link_has_the_slowest_rate_that_a_fault_gave_it(links: Links):
    links.slow("one", 100.0, True)
    links.slow("one", 20.0, True)
    began = time.monotonic()
    got, sent = transfer(links, 1 << 20)
    took_s = time.monotonic() - began
    assert got == sent and took_s > 0.3, "a MiB at 20 Mbit/s takes 0.42 s, less what fits into the burst"
    links.slow("one", 20.0, False)
    links.slow("one", 100.0, False)
    assert heard(links, "one", "two")


def test_the_impairment_loses_and_doubles_as_often_as_it_was_told():
    impairment = Impairment(1)
    frame = bytes(100)
    impairment.wrongs = [{"kind": "link-loss", "amount": 20.0}]
    assert 150 < sum(not impairment.copies(frame) for _ in range(1000)) < 250
    impairment.wrongs = [{"kind": "link-duplicate", "amount": 20.0}]
    assert 150 < sum(len(impairment.copies(frame)) == 2 for _ in range(1000)) < 250
    impairment.wrongs = [{"kind": "link-delay", "amount": 150.0}, {"kind": "link-reorder", "amount": 25.0}]
    delays = {delay for [(delay, _)] in (impairment.copies(frame) for _ in range(100))}
    assert delays == {0.15, 0.16}


def test_a_frame_whose_checksum_is_still_to_be_made_is_not_corrupted():
    """The receiver would not see it: as the sender's card is told to make whole ones, some come without."""
    impairment = Impairment(1)
    impairment.wrongs = [{"kind": "link-corrupt", "amount": 100.0}]
    whole = bytes(VNET_HEADER.size) + bytes(100)
    unfinished = bytes([NEEDS_CHECKSUM]) + whole[1:]
    assert impairment.copies(unfinished) == [(0.0, unfinished)]
    assert impairment.copies(whole) != [(0.0, whole)]


def test_tcp_sees_all_that_is_corrupted_while_that_begins_and_ends(links: Links):
    wrong = {"kind": "link-corrupt", "amount": 2.0}
    with Processes() as processes:
        receiver = start_receiver(links, processes)
        command = [sys.executable, "-c", ENDLESS_SENDER, links.nodes["two"].address]
        sender = processes.start(command, node=links.nodes["one"])
        for _ in range(12):
            for on in (True, False):
                links.impair("one", wrong, on)
        sender.say("enough")
        assert what_it_gave(receiver) == what_it_gave(sender)
    assert checksum_errors(links, "one") + checksum_errors(links, "two") > 0, "nothing was corrupted"


def checksum_errors(links: Links, node: str) -> int:
    """How many segments the node's TCP refused for their checksum."""
    names, values = links.nodes[node].run(["grep", "^Tcp:", "/proc/net/snmp"]).splitlines()
    return int(dict(zip(names.split(), values.split()))["InCsumErrors"])


def test_the_same_seed_impairs_alike():
    one, other = Impairment(7), Impairment(7)
    for impairment in (one, other):
        impairment.wrongs = [{"kind": "link-corrupt", "amount": 30.0}]
    frames = [bytes(VNET_HEADER.size) + bytes([number]) * 200 for number in range(50)]
    assert [one.copies(frame) for frame in frames] == [other.copies(frame) for frame in frames]
