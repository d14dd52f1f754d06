"""A small job on a server that a large job uses at the same time, or that it has to itself.

The third case tells the server's part from the ranks': the large job reduces within its node, so that its ranks keep
their processors and the memory as busy as before, or busier, and the server hears nothing from them.

What is measured is how a server's I/O thread divides its time. So the server has a processor of its own, where it does
not sleep between small ops, and the ranks share the others, where those of the small job go before all else. Between
their all-reduces they sleep, or the large job's ranks would not get a processor. Over shared memory only: over TCP the
kernel's work for all of them would share the ranks' processors as well.
"""

import enum
import json
import os
import pathlib
import time
import uuid

from contenders.case import Case, Measured
from contenders.shoal import Shoal
from hosts.network import Network
from hosts.node import HostError
from hosts.process import Process, Processes

LARGE_RANKS = 8
LARGE_BYTES = 64 << 20
ENDLESS = 1_000_000  # all-reduces
PAUSE_US = 1000  # of the small job's ranks
BEFORE_ALL_ELSE = ["chrt", "--fifo", "1"]  # whatever else the machine is doing
FLOW_TIMEOUT_S = 60


def split_processors() -> tuple[str, str]:
    """For the server, and for all ranks; as taskset takes them. HostError if there is one alone."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise HostError("a server with a processor of its own needs two processors, and there is one")
    return str(first), ",".join(map(str, others))


class LargeJob(enum.Enum):
    """Where its sums are made; shoal-perf's --node-reduce."""

    IN_SERVER = "off"
    IN_RANKS = "host"


class SmallJob(Shoal):
    def __init__(
        self,
        programs: pathlib.Path,
        network: Network,
        processes: Processes,
        server_flags: list[str],
        perf_flags: list[str],
        beside: LargeJob | None,
    ):
        server_processor, rank_processors = split_processors()
        self.beside = beside
        self.on_ranks_processors = ["taskset", "--cpu-list", rank_processors]
        super().__init__(
            programs,
            network,
            processes,
            [*server_flags, "--spin", str(10 * PAUSE_US)],
            perf_flags,
            server_prefix=[*BEFORE_ALL_ELSE, "taskset", "--cpu-list", server_processor],
            rank_prefix=[*BEFORE_ALL_ELSE, *self.on_ranks_processors],
        )
        self.timing_flags = ["--pause", str(PAUSE_US)]

    def measure(self, case: Case, timeout_s: float) -> Measured:
        large = self.start_large_job(self.beside) if self.beside else []
        try:
            measured = super().measure(case, timeout_s)
            if ended := [rank.code for rank in large if not rank.running()]:
                raise HostError(f"ranks of the large job ended with {ended}")
            return measured
        finally:
            for rank in large:
                self.processes.end_one(rank)

    def start_large_job(self, where: LargeJob) -> list[Process]:
        """Its ranks, when several of its all-reduces have ended."""
        job = f"large-{uuid.uuid4().hex}"
        flags = ["-b", str(LARGE_BYTES), "-n", str(ENDLESS), "-w", "0", "-c", "0", "--node-reduce", where.value]
        ranks = []
        for rank in range(LARGE_RANKS):
            node = self.network.workers[rank % len(self.network.workers)]
            command = [*self.on_ranks_processors, *self.perf_command(node, job)]
            command += ["--world-size", str(LARGE_RANKS), "--rank", str(rank), *flags]
            ranks.append(self.processes.start(command, node=node))
        deadline = time.monotonic() + FLOW_TIMEOUT_S
        while self.ended_ops(job) < 4 * LARGE_RANKS:
            if time.monotonic() > deadline:
                raise HostError(f"the large job did not come to four all-reduces within {FLOW_TIMEOUT_S} s")
            time.sleep(0.5)
        return ranks

    def ended_ops(self, job: str) -> int:
        """Of all the job's ranks, as they last told the scheduler; none before they have joined."""
        command = [str(self.programs / "shoalctl"), "--scheduler", self.scheduler, "--json", "jobs"]
        [output] = self.processes.run([(self.network.control, command)], timeout_s=30)
        jobs = json.loads(output)["jobs"]
        return sum(int(each["load"].get("ops_completed", 0)) for each in jobs if each["name"] == job)
