"""What a link really carries: TCP payload per second with all links busy in both directions."""

import dataclasses
import pathlib
import statistics
import sys
import time

from hosts.network import Network
from hosts.node import Node
from hosts.process import Processes
from rig.processor_time import ProcessorTimes

STREAM = str(pathlib.Path(__file__).parent / "tcp_stream.py")
SETTLE_S = 2.0
WINDOW_S = 2.0
# Links of one shape that differ by more than this are limited by the machine and not by their shape.
LEAST_UNIFORMITY = 0.98


@dataclasses.dataclass(frozen=True)
class Calibration:
    bytes_per_s: float  # the median link's
    lowest_bytes_per_s: float
    highest_bytes_per_s: float
    cpu_idle: float  # share of the machine's CPU time, during the calibration

    def is_uniform(self) -> bool:
        return self.lowest_bytes_per_s >= LEAST_UNIFORMITY * self.bytes_per_s


def calibrate(network: Network, processes: Processes) -> Calibration:
    """Sends in a circle of all worker and server nodes of each network; their links must have one shape. HostError if a
    stream fails."""
    circles: dict[str, list[tuple[Node, str]]] = {}  # by network: nodes, and their addresses in it
    for node in dict.fromkeys(network.workers + network.servers):
        for address in (node.address, *node.more_addresses):
            circles.setdefault(address.rsplit(".", 2)[0], []).append((node, address))
    begin = time.monotonic() + SETTLE_S
    commands = []
    for circle in circles.values():
        for (node, address), (_next, target) in zip(circle, circle[1:] + circle[:1]):
            command = [sys.executable, "-S", STREAM, "--listen", address, "--to", target]
            commands.append((node, [*command, "--begin", str(begin), "--end", str(begin + WINDOW_S)]))
    before = ProcessorTimes.now()
    outputs = processes.run(commands, timeout_s=SETTLE_S + WINDOW_S + 30)
    idle = ProcessorTimes.now().idle_share_since(before)
    rates = []
    for output in outputs:
        received, seconds = map(float, output.split())
        rates.append(received / seconds)
    return Calibration(statistics.median(rates), min(rates), max(rates), idle)
