"""The network under chaos: nodes on one switch, and what is wrong with their links and paths at a moment.

Faults may overlap: each thing is counted, and is whole again when the last fault that broke it is mended.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections import Counter

from chaos import paths  # noqa: F401  (rig is found by it)

from rig.nodes import Node, RigError
from rig.network import Network, add_node, run_in

NOBODYS_CARD = "02:00:00:00:00:01"
OFFLOADS = pathlib.Path(__file__).with_name("offloads.py")
PROGRAM = pathlib.Path(__file__).with_name("impaired_link.py")
SLOW_BURST_KIB, SLOW_BUFFER_KIB = 80, 256


def make_network(names: list[str]) -> tuple[Network, dict[str, Node]]:
    """RigError without root."""
    network = Network()
    try:
        network.switch = network.new_namespace()
        run_in(network.switch, ["ip", "-batch", "-"], "link add switch type bridge\nlink set switch up\n")
        nodes = {name: add_node(network, name, None) for name in names}
    except BaseException:
        network.__exit__()
        raise
    return network, nodes


class BadCable:
    """An impaired_link.py in the place of a node's cable to the switch."""

    def __init__(self, network: Network, node: Node, seed: int):
        self.network, self.node = network, node
        self.port = network.ports[node.name]
        number = self.port.rsplit("-", 1)[1]
        self.inner, self.outer = f"in-{number}", f"out-{number}"  # its end, and the switch's
        run_in(
            network.switch,
            ["ip", "-batch", "-"],
            f"link add {self.inner} type veth peer name {self.outer}\n"
            f"link set {self.inner} up\nlink set {self.outer} up\n",
        )
        in_switch = Node("switch", "", "", network.switch)
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.port, self.inner, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=in_switch.enter,
        )

    def set(self, wrongs: list[dict]) -> None:
        self.process.stdin.write(json.dumps(wrongs) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise RigError(f"the impaired link of {self.node.name} ended with {self.process.wait()}")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        run_in(self.network.switch, ["ip", "link", "delete", self.inner])


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
        run_in(self.network.switch, ["ip", "-batch", "-"], "\n".join(lines) + "\n")

    def block(self, sender: str, receiver: str, on: bool) -> None:
        """One way: what the sender sends to the receiver goes to a card that nobody has."""
        before = self.blocked[sender, receiver]
        self.blocked[sender, receiver] += 1 if on else -1
        if bool(before) == bool(self.blocked[sender, receiver]):
            return
        own, peer = self.nodes[sender], self.nodes[receiver]
        if on:
            card = ["lladdr", NOBODYS_CARD, "dev", own.device, "nud", "permanent"]
            run_in(own.namespace, ["ip", "neighbour", "replace", peer.address, *card])
        else:
            run_in(own.namespace, ["ip", "neighbour", "delete", peer.address, "dev", own.device])

    def slow(self, name: str, rate_mbit: float, on: bool) -> None:
        """Both directions, as the slowest of the faults says."""
        rates = self.rates[name]
        rates.append(rate_mbit) if on else rates.remove(rate_mbit)
        shaper = f"rate {min(rates)}mbit burst {SLOW_BURST_KIB}kb limit {SLOW_BUFFER_KIB}kb" if rates else ""
        node = self.nodes[name]
        for namespace, device in ((self.network.switch, self.network.ports[name]), (node.namespace, node.device)):
            if rates:
                run_in(namespace, ["tc", "qdisc", "replace", "dev", device, "root", "tbf", *shaper.split()])
            else:
                run_in(namespace, ["tc", "qdisc", "delete", "dev", device, "root"])

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
            self.set_offloads(self.network.switch, self.cables[name].outer, False)

    def set_checksums(self, name: str, whole: bool) -> None:
        node = self.nodes[name]
        self.set_offloads(node.namespace, node.device, not whole)

    def set_offloads(self, namespace: int, device: str, on: bool) -> None:
        setup = Node("setup", "", "", namespace)
        done = subprocess.run(
            [sys.executable, str(OFFLOADS), device, "on" if on else "off"],
            preexec_fn=setup.enter, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RigError(f"offloads of {device}: {done.stderr.strip()}")
