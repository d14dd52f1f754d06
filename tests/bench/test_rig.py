"""The bench's rig: its links carry what they should, contenders are checked, and nothing outlives it. Needs root."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import types
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import plot
import summary
from contenders import roster
from contenders.case import Case
from rig.calibration import calibrate
from hosts.left_over import clean_left_over, processes_of
from hosts.network import LinkShape, Network, make_linked_nodes, make_one_node
from hosts.node import HostError, Node
from hosts.process import Process, Processes

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")
DEADLINE_S = 20


@needs_root
def test_links_carry_their_rate_and_nothing_else_reaches_a_node():
    with make_linked_nodes([LinkShape(40)] * 2, [LinkShape(40)]) as network, Processes() as processes:
        calibration = calibrate(network, processes)
        # 1448 of 1514 bytes are payload, and acknowledgements of the other direction share the link.
        assert 0.85 < calibration.bytes_per_s * 8e-6 / 40 < 0.957
        devices = network.workers[0].run(["ip", "-o", "link"]).splitlines()
        assert [line.split(":")[1].strip().split("@")[0] for line in devices] == ["lo", "eth0"]


@needs_root
@pytest.mark.parametrize("cut", [Network.pull_cable, Network.silence_cable])
def test_nothing_crosses_a_cable_that_is_cut_until_it_is_mended(cut):
    with make_linked_nodes([None] * 2, [None]) as network, Processes() as processes:
        server, (worker, other) = network.servers[0], network.workers
        listen = (
            "import signal, socket; s = socket.create_server(('', 7000)); print('ready', flush=True); signal.pause()"
        )
        processes.start([sys.executable, "-S", "-c", listen], node=server).wait_for_line("ready")

        def connects(node: Node, within_s: float = DEADLINE_S) -> bool:
            connect = f"import socket; socket.create_connection(('{server.address}', 7000), timeout={within_s})"
            try:
                node.run([sys.executable, "-S", "-c", connect])
            except HostError as error:
                assert "timed out" in str(error) or "No route" in str(error)
                return False
            return True

        assert connects(worker) and connects(other)
        assert network.bytes_received(server) > 0
        cut(network, worker)
        assert not connects(worker, within_s=0.5)
        assert connects(other)
        network.mend_cable(worker)
        assert connects(worker)


@needs_root
def test_ranks_of_one_node_alone_have_one_boot_id():
    read = [sys.executable, "-S", "-c", "print(open('/proc/sys/kernel/random/boot_id').read())"]
    with make_linked_nodes([None] * 2, [None], ranks_per_node=2) as network, Processes() as processes:
        nodes = [*network.workers, *network.servers]
        first, second, third, fourth, server = processes.run([(node, read) for node in nodes], DEADLINE_S)
    assert first == second and third == fourth
    assert len({first, third, server}) == 3


@needs_root
def test_what_enters_and_what_leaves_each_node_of_workers_is_counted():
    with make_linked_nodes([None] * 2, [None], ranks_per_node=2) as network, Processes() as processes:
        sender, other = network.workers[0], network.workers[2]
        before = network.worker_traffic()
        assert len(before) == 2, "each node once, though it has two ranks"
        take = (
            "import socket; s = socket.create_server(('', 7000)); print('ready', flush=True); c, _ = s.accept()\n"
            "while c.recv(1 << 16): pass"
        )
        receiver = processes.start([sys.executable, "-S", "-c", take], node=other)
        receiver.wait_for_line("ready")
        send = f"import socket; socket.create_connection(('{other.address}', 7000)).sendall(bytes(1 << 20))"
        sender.run([sys.executable, "-S", "-c", send])
        receiver.wait(DEADLINE_S)
        of_sender, of_other = network.worker_traffic()
        assert of_sender.sent - before[0].sent > 1 << 20 > of_sender.received - before[0].received
        assert of_other.received - before[1].received > 1 << 20 > of_other.sent - before[1].sent


def test_ranks_in_torch_with_nothing_set_up_do_what_they_do_by_themselves(tmp_path: pathlib.Path):
    environments = []

    class Recorder:
        folder = tmp_path

        def start(self, _command, env, _node, _log):
            environments.append(env)
            return Process(["echo", '"all ranks are there"'])

    node = Node("node", "127.0.0.1", "lo", -1)
    network = types.SimpleNamespace(workers=[node] * 2, servers=[], switch=None, ranks_per_node=1)
    for name in ("shoal-torch", "shoal-ddp"):
        roster.start(name, pathlib.Path(), pathlib.Path(), network, Recorder())
    # The rig's default is off; what is set for a process goes before it.
    assert [env["SHOAL_NODE_REDUCE"] for env in environments] == ["auto"] * 4
    set_up = {name for env in environments for name in env if name.startswith("SHOAL_")}
    assert set_up == {"SHOAL_NODE_REDUCE"}


@needs_root
def test_a_programs_failure_is_told_with_node_and_output():
    with make_one_node(1, 0) as network, Processes() as processes:
        with pytest.raises(HostError, match=r"on node, sh -c .* ended with 3:\nno luck"):
            processes.run([(network.control, ["sh", "-c", "echo no luck >&2; exit 3"])], timeout_s=DEADLINE_S)


@needs_root
def test_shoal_reduces_right_over_shaped_links():
    programs = ROOT / "build/bin"
    links = [LinkShape(200)] * 2
    with make_linked_nodes(links, links) as network, Processes() as processes:
        shoal = roster.start("shoal", programs, pathlib.Path(), network, processes)
        measured = shoal.measure(Case(1 << 20, iterations=3, warmup=1), timeout_s=60)
    assert measured.wrong == 0
    assert len(measured.op_times_us) == 3
    # 1 MiB each way at 200 Mbit/s, less what the shaper's burst gives.
    assert min(measured.op_times_us) > 35_000
    assert len(measured.server_bytes) == 2


@needs_root
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_rig(way: signal.Signals):
    # The second sleep has no parent in the rig any more, as a daemon.
    program = (
        "import sys, signal; sys.path.insert(0, sys.argv[1])\n"
        "from hosts.process import Processes\nfrom hosts.network import make_one_node\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with make_one_node(1, 0) as network, Processes() as processes:\n"
        "    processes.start(['sleep', '1000'], node=network.control)\n"
        "    processes.start(['sh', '-c', 'setsid sleep 1000 & exit 0'], node=network.control).process.wait()\n"
        "    print('ready', flush=True)\n    signal.pause()\n"
    )
    command = [sys.executable, "-c", program, str(ROOT / "tests")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        try:
            assert owner.stdout.readline() == "ready\n"
            # A process that is just becoming another program shows no environment for a moment.
            deadline = time.monotonic() + DEADLINE_S
            while len(processes_of(owner.pid)) != 2:
                assert time.monotonic() < deadline, "the rig's two processes don't show"
            owner.send_signal(way)
            owner.wait(timeout=DEADLINE_S)
        finally:
            owner.kill()
    if way == signal.SIGKILL:
        clean_left_over()  # what the next run begins with
    deadline = time.monotonic() + DEADLINE_S
    while processes_of(owner.pid):
        assert time.monotonic() < deadline, "a process of the rig is still there"
        time.sleep(0.01)


def test_a_ratio_of_equal_rounds_is_certain_and_one_of_spread_rounds_is_not():
    certain = summary.ratio_of_medians([[10.0], [10.0], [10.0]], [[20.0], [20.0], [20.0]])
    assert certain == {"median": 0.5, "low95": 0.5, "high95": 0.5}
    spread = summary.ratio_of_medians(
        [[10.0, 12.0], [8.0, 9.0], [20.0, 11.0]], [[20.0, 21.0], [19.0, 22.0], [20.0, 25.0]]
    )
    assert spread["low95"] < spread["median"] < spread["high95"]


def test_percentiles_are_values_that_were_measured():
    assert summary.percentile([3.0, 1.0, 2.0], 10) == 1.0
    assert summary.percentile([3.0, 1.0, 2.0], 90) == 3.0
    assert summary.spread([[1.0, 5.0], [3.0]]) == {"median": 3.0, "p10": 1.0, "p90": 5.0, "count": 3}


def test_a_chart_is_well_formed_whatever_its_labels():
    group = plot.Group("n<8 & k=2", [plot.Bar('a "b"', 0.5, 0.4, 0.6)], {"ring": 0.57})
    picture = plot.bar_chart("title", "unit", [group], ["a sentence"])
    root = xml.etree.ElementTree.fromstring(picture)
    assert "n<8 & k=2" in [element.text for element in root]
