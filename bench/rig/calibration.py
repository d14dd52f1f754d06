"""What a link really carries: TCP payload per second with all links busy in both directions."""

import dataclasses
import pathlib
import statistics
import sys
import time

from rig.nodes import Processes
from rig.network import Network
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
    """Sends in a circle of all worker and server nodes; their links must have one shape. RigError if a stream fails."""
    circle = list(dict.fromkeys(network.workers + network.servers))
    begin = time.monotonic() + SETTLE_S
    commands = []
    for number, node in enumerate(circle):
        target = circle[(number + 1) % len(circle)].address
        command = [sys.executable, "-S", STREAM, "--to", target, "--begin", str(begin), "--end", str(begin + WINDOW_S)]
        commands.append((node, command))
    before = ProcessorTimes.now()
    outputs = processes.run(commands, timeout_s=SETTLE_S + WINDOW_S + 30)
    idle = ProcessorTimes.now().idle_share_since(before)
    rates = []
    for output in outputs:
        received, seconds = map(float, output.split())
        rates.append(received / seconds)
    return Calibration(statistics.median(rates), min(rates), max(rates), idle)
