"""Shaped links: every node hangs on one switch by a link of a given rate, with a port buffer at each of its ends. Nodes
of ranks may have a link to each of several networks, of which each has a switch of its own.

The switch is a bridge in a namespace of its own; a link is a veth pair with a token bucket on both ends: on the node's
end it is the node's uplink, on the switch's end the output port of a switch. What does not fit into a port's buffer is
dropped.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from hosts.node import LOOPBACK, HostError, Node, open_new_namespace

MEND_S = 30
NOBODYS_CARD = "02:00:00:00:00:01"
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
        self.switch: Node | None = None  # None: there are no links
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
        # /proc/sys/net is that of the process that opens it.
        lines = [f"[ ! -e /proc/sys/{name} ] || echo {value} > /proc/sys/{name}" for name, value in SYSCTLS.items()]
        Node("setup", namespace=namespace).run(["sh", "-e"], "\n".join(["ip link set lo up", *lines]))
        return namespace

    def add_switches(self, count: int = 1) -> None:
        self.switch = Node("switch", namespace=self.new_namespace())
        for name in map(switch_name, range(count)):
            self.switch.run_batch("ip", f"link add {name} type bridge", f"link set {name} up")

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
                raise HostError(f"the cable of {node.name} carries nothing {MEND_S} s after it was mended")
            time.sleep(0.01)

    def is_mended(self, node: Node) -> bool:
        port = self.switch.run(["ip", "-o", "-d", "link", "show", "dev", self.ports[node.name]])
        device = node.run(["ip", "-o", "link", "show", "dev", node.device])
        return "bridge_slave state forwarding" in port and "state UP" in device

    def set_port(self, node: Node, setting: str) -> None:
        self.switch.run_batch("ip", f"link set {self.ports[node.name]} {setting}")

    def shape_link(
        self, node: Node, up_mbit: float | None, down_mbit: float | None = None, burst_kib: int = LinkShape.burst_kib
    ) -> None:
        """The node's link has these rates from now on. `up_mbit` None: no limit; `down_mbit` None: as up. Up, it saves
        `burst_kib` while it is idle."""
        shape_device(node, node.device, up_mbit and LinkShape(up_mbit, burst_kib=burst_kib))
        down_mbit = down_mbit or up_mbit
        shape_device(self.switch, self.ports[node.name], down_mbit and LinkShape(down_mbit))

    def traffic(self, node: Node) -> Traffic:
        """Of the node's devices, since they were made."""
        text = node.run(["cat", "/proc/net/dev"])
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
            lines = node.run(["cat", "/proc/net/netstat"]).splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                if names.startswith("TcpExt:"):
                    for name, value in zip(names.split()[1:], values.split()[1:]):
                        sums[name] = sums.get(name, 0) + int(value)
        return sums


def shape_device(node: Node, device: str, shape: LinkShape | None) -> None:
    """What leaves the node by the device. None: without a limit."""
    if shape is None:
        if "tbf" in node.run(["tc", "qdisc", "show", "dev", device, "root"]):
            node.run(["tc", "qdisc", "delete", "dev", device, "root"])
        return
    setting = f"rate {shape.rate_mbit}mbit burst {shape.burst_kib}kb limit {shape.port_buffer_kib}kb"
    node.run(["tc", "qdisc", "replace", "dev", device, "root", "tbf", *setting.split()])


def cut_way(sender: Node, receiver: Node) -> None:
    """What the one sends to the other goes to a card that nobody has; nobody is told, and both reach everybody else."""
    card = ["lladdr", NOBODYS_CARD, "dev", sender.device, "nud", "permanent"]
    sender.run(["ip", "neighbour", "replace", receiver.address, *card])


def cut_path(one: Node, other: Node) -> None:
    cut_way(one, other)
    cut_way(other, one)


def mend_way(sender: Node, receiver: Node) -> None:
    sender.run(["ip", "neighbour", "delete", receiver.address, "dev", sender.device])


def slow_down_way(sender: Node, receiver: Node, rate_mbit: float) -> None:
    """What the one sends to the other goes at this rate from now on, and nothing else is held up."""
    device = f"dev {sender.device}"
    sender.run_batch(
        "tc",
        f"qdisc replace {device} root handle 1: htb default 10",
        f"class replace {device} parent 1: classid 1:10 htb rate 10gbit",
        f"class replace {device} parent 1: classid 1:20 htb rate {rate_mbit}mbit",
        f"filter replace {device} parent 1: protocol ip prio 1 handle 800::800"
        f" u32 match ip dst {receiver.address}/32 flowid 1:20",
    )


def make_one_node(worker_count: int, server_count: int) -> Network:
    """All processes on one node with nothing but a loopback device. HostError without root."""
    network = Network()
    node = Node("node", LOOPBACK, "lo", network.new_namespace())
    route = f"dev lo table local scope host src {LOOPBACK} congctl {CONGESTION_CONTROL}"
    node.run_batch("ip", *(f"route replace local {to} {route}" for to in ("127.0.0.0/8", LOOPBACK)))
    network.control = node
    network.workers = [node] * worker_count
    network.servers = [node] * server_count
    return network


@contextlib.contextmanager
def closed_on_error(network: Network) -> Iterator[None]:
    try:
        yield
    except BaseException:
        network.__exit__()
        raise


def make_named_nodes(names: list[str]) -> tuple[Network, dict[str, Node]]:
    """Each with a link that has no limit. HostError without root."""
    network = Network()
    with closed_on_error(network):
        network.add_switches()
        return network, {name: add_node(network, name, None) for name in names}


def make_linked_nodes(
    worker_links: list[LinkShape | None],
    server_links: list[LinkShape | None],
    ranks_per_node: int = 1,
    network_count: int = 1,
) -> Network:
    """A node for each link (None: one without a limit) and one for control. `workers` names each of theirs
    `ranks_per_node` times, one after the other. With several networks a worker's node has such a link to each of them,
    and servers are in them by turns. HostError without root, or if ip or tc fails."""
    network = Network()
    with closed_on_error(network):
        network.add_switches(network_count)
        everywhere = tuple(range(network_count))
        network.control = add_node(network, "control", None, everywhere)
        nodes = [add_node(network, f"worker-{i}", link, everywhere) for i, link in enumerate(worker_links)]
        network.workers = [node for node in nodes for _ in range(ranks_per_node)]
        network.ranks_per_node = ranks_per_node
        for i, link in enumerate(server_links):
            network.servers.append(add_node(network, f"server-{i}", link, (i % network_count,)))
        shapes = [link for link in [*worker_links, *server_links] if link is not None]
        network.port_buffer_kib = min((link.port_buffer_kib for link in shapes), default=None)
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
        node.run(["ip", "route", "add", f"{network.control.address}/32", "via", way])
    return node


def add_link(
    network: Network, node: Node, network_number: int, port: str, device: str, address: str, shape: LinkShape | None
) -> None:
    network.switch.run_batch(
        "ip",
        f"link add {port} type veth peer name {device} netns {node.namespace_path()}",
        f"link set {port} master {switch_name(network_number)} up",
    )
    all_addresses = f"10.{64 + network_number}.0.0/16"
    node.run_batch(
        "ip",
        f"link set {device} up",
        f"addr add {address}/16 dev {device} noprefixroute",
        f"route add {all_addresses} dev {device} scope link src {address} congctl {CONGESTION_CONTROL}",
    )
    if shape is not None:
        shape_device(network.switch, port, shape)
        shape_device(node, device, shape)
