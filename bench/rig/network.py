"""Shaped links: every node hangs on one switch by a link of a given rate, with a port buffer at each of its ends. Nodes
of ranks may have a link to each of several networks, of which each has a switch of its own.

The switch is a bridge in a namespace of its own; a link is a veth pair with a token bucket on both ends: on the node's
end it is the node's uplink, on the switch's end the output port of a switch. What does not fit into a port's buffer is
dropped.
"""

import dataclasses
import os
import subprocess
import time
from typing import NamedTuple

from rig.nodes import Node, RigError, open_new_namespace

MEND_S = 30
# For every contender: what the kernel is set to differs from machine to machine. It is a property of routes here,
# because only the machine's first namespace may make a default of an algorithm that is restricted there.
CONGESTION_CONTROL = "cubic"
# After a pause a connection goes on at its rate, as in training; and none learns from one that ended.
SYSCTLS = {
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # A switch asks no packet filter of a host, as bridges of some kernels do.
    "net/bridge/bridge-nf-call-iptables": "0",
    "net/bridge/bridge-nf-call-ip6tables": "0",
    "net/bridge/bridge-nf-call-arptables": "0",
}


@dataclasses.dataclass(frozen=True)
class LinkShape:
    rate_mbit: float  # each direction, as on the wire
    port_buffer_kib: int = 256
    # Above one 64 KiB packet of the kernel's segmentation offload, else the shaper cuts it up, which costs CPU time.
    burst_kib: int = 80


class Traffic(NamedTuple):
    """Bytes, with all headers."""

    received: int
    sent: int


def once_each(nodes: list[Node]) -> list[Node]:
    return list({node.namespace: node for node in nodes}.values())


class Network:
    """Nodes by their part: `control` is for the scheduler and the like, and its link has no limit. `with` closes it."""

    def __init__(self):
        self.namespaces: list[int] = []
        self.switch = -1  # the namespace of the switch
        self.ports: dict[str, str] = {}  # the switch's device to each linked node, by the node's name
        self.workers: list[Node] = []
        self.servers: list[Node] = []
        self.control: Node | None = None
        self.port_buffer_kib: int | None = None  # of every link's both ends; None: there is none
        self.ranks_per_node = 1  # of the workers, where links lead to them

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_exception) -> None:
        for namespace in self.namespaces:
            os.close(namespace)
        self.namespaces.clear()

    def new_namespace(self) -> int:
        namespace = open_new_namespace()
        self.namespaces.append(namespace)
        run_in(namespace, ["ip", "link", "set", "lo", "up"])
        # /proc/sys/net is that of the process that opens it.
        lines = [f"[ ! -e /proc/sys/{name} ] || echo {value} > /proc/sys/{name}" for name, value in SYSCTLS.items()]
        run_in(namespace, ["sh", "-e"], "\n".join(lines))
        return namespace

    def pull_cable(self, node: Node) -> None:
        """Both ends see that nothing is there any more."""
        self.set_port(node, "down")

    def silence_cable(self, node: Node) -> None:
        """The light stays on and nothing gets through, either way."""
        self.set_port(node, "nomaster")

    def mend_cable(self, node: Node) -> None:
        """After pull_cable or silence_cable. Returns when packets get through: Linux tells of a link once a second."""
        self.set_port(node, "master switch up")
        deadline = time.monotonic() + MEND_S
        while not self.is_mended(node):
            if time.monotonic() > deadline:
                raise RigError(f"the cable of {node.name} carries nothing {MEND_S} s after it was mended")
            time.sleep(0.01)

    def is_mended(self, node: Node) -> bool:
        port = run_in(self.switch, ["ip", "-o", "-d", "link", "show", "dev", self.ports[node.name]])
        device = run_in(node.namespace, ["ip", "-o", "link", "show", "dev", node.device])
        return "bridge_slave state forwarding" in port and "state UP" in device

    def set_port(self, node: Node, setting: str) -> None:
        run_in(self.switch, ["ip", "-batch", "-"], f"link set {self.ports[node.name]} {setting}\n")

    def traffic(self, node: Node) -> Traffic:
        """Of the node's devices, since they were made."""
        text = run_in(node.namespace, ["cat", "/proc/net/dev"])
        counts = dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)
        columns = [counts[device].split() for device in node.device.split(",")]
        # Eight columns of what came, and as many of what went.
        return Traffic(sum(int(each[0]) for each in columns), sum(int(each[8]) for each in columns))

    def bytes_received(self, node: Node) -> int:
        return self.traffic(node).received

    def worker_traffic(self) -> list[Traffic]:
        """Of each node of workers."""
        return [self.traffic(node) for node in once_each(self.workers)]

    def nodes(self) -> list[Node]:
        """Each namespace once."""
        return once_each([self.control, *self.workers, *self.servers])

    def counters(self) -> dict[str, int]:
        """TCP's extended counters (as nstat names them, without the prefix TcpExt), summed over all nodes."""
        sums: dict[str, int] = {}
        for node in self.nodes():
            lines = run_in(node.namespace, ["cat", "/proc/net/netstat"]).splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                if names.startswith("TcpExt:"):
                    for name, value in zip(names.split()[1:], values.split()[1:]):
                        sums[name] = sums.get(name, 0) + int(value)
        return sums


def run_in(namespace: int, command: list[str], text: str = "") -> str:
    node = Node("setup", "", "", namespace)
    done = subprocess.run(command, input=text, capture_output=True, text=True, preexec_fn=node.enter, timeout=60)
    if done.returncode != 0:
        raise RigError(f"{' '.join(command)} failed:\n{text}\n{done.stderr.strip()}")
    return done.stdout


def make_one_node(worker_count: int, server_count: int) -> Network:
    """All processes on one node with nothing but a loopback device. RigError without root."""
    network = Network()
    node = Node("node", "127.0.0.1", "lo", network.new_namespace())
    route = "route replace local {} dev lo table local scope host src 127.0.0.1 congctl " + CONGESTION_CONTROL + "\n"
    run_in(node.namespace, ["ip", "-batch", "-"], route.format("127.0.0.0/8") + route.format("127.0.0.1"))
    network.control = node
    network.workers = [node] * worker_count
    network.servers = [node] * server_count
    return network


def make_linked_nodes(
    worker_links: list[LinkShape | None],
    server_links: list[LinkShape | None],
    ranks_per_node: int = 1,
    network_count: int = 1,
) -> Network:
    """A node for each link (None: one without a limit) and one for control. `workers` names each of theirs
    `ranks_per_node` times, one after the other. With several networks a worker's node has such a link to each of them,
    and servers are in them by turns. RigError without root, or if ip or tc fails."""
    network = Network()
    try:
        network.switch = network.new_namespace()
        for number in range(network_count):
            switch = switch_name(number)
            run_in(network.switch, ["ip", "-batch", "-"], f"link add {switch} type bridge\nlink set {switch} up\n")
        everywhere = tuple(range(network_count))
        network.control = add_node(network, "control", None, everywhere)
        nodes = [add_node(network, f"worker-{i}", link, everywhere) for i, link in enumerate(worker_links)]
        network.workers = [node for node in nodes for _ in range(ranks_per_node)]
        network.ranks_per_node = ranks_per_node
        for i, link in enumerate(server_links):
            network.servers.append(add_node(network, f"server-{i}", link, (i % network_count,)))
        shapes = [link for link in [*worker_links, *server_links] if link is not None]
        network.port_buffer_kib = min((link.port_buffer_kib for link in shapes), default=None)
    except BaseException:
        network.__exit__()
        raise
    return network


def switch_name(network_number: int) -> str:
    return "switch" if network_number == 0 else f"switch-{network_number}"


def address_in(network_number: int, node_number: int) -> str:
    return f"10.{64 + network_number}.{node_number // 250}.{node_number % 250 + 1}"


def add_node(network: Network, name: str, shape: LinkShape | None, networks: tuple[int, ...] = (0,)) -> Node:
    number = len(network.namespaces)
    devices = [f"eth{i}" for i in range(len(networks))]
    addresses = [address_in(each, number) for each in networks]
    node = Node(name, addresses[0], ",".join(devices), network.new_namespace(), tuple(addresses[1:]))
    network.ports[name] = f"port-{number}"
    for each, device, address in zip(networks, devices, addresses):
        port = f"port-{number}" if each == networks[0] else f"port-{number}-{each}"
        add_link(network, node, each, port, device, address, shape)
    if network.control is not None and 0 not in networks:  # the scheduler's address is in the first network
        way = network.control.more_addresses[networks[0] - 1]
        run_in(node.namespace, ["ip", "route", "add", f"{network.control.address}/32", "via", way])
    return node


def add_link(
    network: Network, node: Node, network_number: int, port: str, device: str, address: str, shape: LinkShape | None
) -> None:
    run_in(
        network.switch,
        ["ip", "-batch", "-"],
        f"link add {port} type veth peer name {device} netns {node.namespace_path()}\n"
        f"link set {port} master {switch_name(network_number)} up\n",
    )
    all_addresses = f"10.{64 + network_number}.0.0/16"
    run_in(
        node.namespace,
        ["ip", "-batch", "-"],
        f"link set {device} up\naddr add {address}/16 dev {device} noprefixroute\n"
        f"route add {all_addresses} dev {device} scope link src {address} congctl {CONGESTION_CONTROL}\n",
    )
    if shape is not None:
        for namespace, end in ((network.switch, port), (node.namespace, device)):
            run_in(
                namespace,
                ["tc", "-batch", "-"],
                f"qdisc replace dev {end} root tbf rate {shape.rate_mbit}mbit burst {shape.burst_kib}kb"
                f" limit {shape.port_buffer_kib}kb\n",
            )
