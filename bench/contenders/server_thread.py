"""A server's I/O thread alone: its real loop, machine and sums, on a network where contributions arrive without end.

With real ranks on one machine the thread is idle most of the time, because they need the processors to fill its memory.
"""

import json
import pathlib
import statistics

from contenders.case import Case, Measured
from hosts.network import Network
from hosts.process import Processes


class ServerThread:
    def __init__(self, programs: pathlib.Path, network: Network, processes: Processes, mode: str):
        self.node = network.control
        self.processes = processes
        self.command = [str(programs / "server_thread_bench"), mode]

    def measure(self, case: Case, timeout_s: float) -> Measured:
        command = ["chrt", "--fifo", "1", *self.command, str(case.iterations)]
        [output] = self.processes.run([(self.node, command)], timeout_s)
        times_us = json.loads(output)["op_times_us"]
        mean_us = statistics.fmean(times_us)
        return Measured(times_us, mean_us, mean_us, 0)
