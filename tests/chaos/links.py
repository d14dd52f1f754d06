"""The network under chaos: nodes on one switch, and what is wrong with their links and paths at a moment.

Faults may overlap: each thing is counted, and is whole again when the last fault that broke it is mended.
"""

import json
import pathlib
import sys
from collections import Counter

from hosts.network import Network, cut_way, mend_way
from hosts.node import Node
from hosts.process import Process

OFFLOADS = pathlib.Path(__file__).with_name("offloads.py")
PROGRAM = pathlib.Path(__file__).with_name("impaired_link.py")


class BadCable:
    """An impaired_link.py in the place of a node's cable to the switch."""

    def __init__(self, network: Network, node: Node, seed: int):
        self.network, self.node = network, node
        self.port = network.ports[node.name]
        number = self.port.rsplit("-", 1)[1]
        self.inner, self.outer = f"in-{number}", f"out-{number}"  # its end, and the switch's
        network.switch.run_batch(
            "ip",
            f"link add {self.inner} type veth peer name {self.outer}",
            f"link set {self.inner} up",
            f"link set {self.outer} up",
        )
        command = [sys.executable, str(PROGRAM), self.port, self.inner, str(seed)]
        self.process = Process(command, before_exec=network.switch.enter)
        self.settings = 0

    def set(self, wrongs: list[dict]) -> None:
        self.process.say(json.dumps(wrongs))
        self.process.wait_for_line("^ok$", after=self.settings)
        self.settings += 1

    def close(self) -> None:
        self.process.end_group()
        self.network.switch.run(["ip", "link", "delete", self.inner])


class Links:
    def __init__(self, network: Network, nodes: dict[str, Node], seed: int):
        self.network, self.nodes, self.seed = network, nodes, seed
        self.silent: Counter[str] = Counter()
        self.pulled: Counter[str] = Counter()
        self.blocked: Counter[tuple[str, str]] = Counter()  # from, to
        self.rates: dict[str, list[float]] = {name: [] for name in nodes}
        self.wrongs: dict[str, list[dict]] = {name: [] for name in nodes}
        self.cables: dict[str, BadCable] = {}

    def close(self) -> None:
        for cable in self.cables.values():
            cable.close()
        self.cables.clear()

    def silence(self, name: str, on: bool) -> None:
        self.silent[name] += 1 if on else -1
        self.set_port(name)

    def pull(self, name: str, on: bool) -> None:
        self.pulled[name] += 1 if on else -1
        self.set_port(name)

    def set_port(self, name: str) -> None:
        port = self.network.ports[name]
        master = "nomaster" if self.silent[name] else "master switch"
        direct, around = ("nomaster", master) if self.wrongs[name] else (master, "nomaster")
        lines = [f"link set {port} {direct}", f"link set {port} {'down' if self.pulled[name] else 'up'}"]
        if name in self.cables:
            lines.append(f"link set {self.cables[name].outer} {around}")
        self.network.switch.run_batch("ip", *lines)

    def block(self, sender: str, receiver: str, on: bool) -> None:
        """One way: what the sender sends to the receiver goes to a card that nobody has."""
        before = self.blocked[sender, receiver]
        self.blocked[sender, receiver] += 1 if on else -1
        if bool(before) == bool(self.blocked[sender, receiver]):
            return
        (cut_way if on else mend_way)(self.nodes[sender], self.nodes[receiver])

    def slow(self, name: str, rate_mbit: float, on: bool) -> None:
        """Both directions, as the slowest of the faults says."""
        rates = self.rates[name]
        rates.append(rate_mbit) if on else rates.remove(rate_mbit)
        self.network.shape_link(self.nodes[name], min(rates, default=None))

    def prepare(self, name: str) -> None:
        """Its bad cable is there from now on, beside the good one: to be ready when it is wanted."""
        if name not in self.cables:
            self.seed += 1
            self.cables[name] = BadCable(self.network, self.nodes[name], self.seed)

    def impair(self, name: str, wrong: dict, on: bool) -> None:
        wrongs = self.wrongs[name]
        wrongs.append(wrong) if on else wrongs.remove(wrong)
        if wrong["kind"] == "link-corrupt":
            self.set_checksums(name, whole=any(each["kind"] == "link-corrupt" for each in wrongs))
        self.prepare(name)
        self.cables[name].set(wrongs)
        self.set_port(name)
        if wrong["kind"] == "link-corrupt":
            set_offloads(self.network.switch, self.cables[name].outer, False)

    def set_checksums(self, name: str, whole: bool) -> None:
        node = self.nodes[name]
        set_offloads(node, node.device, not whole)


def set_offloads(node: Node, device: str, on: bool) -> None:
    node.run([sys.executable, str(OFFLOADS), device, "on" if on else "off"])
