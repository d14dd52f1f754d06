"""A small job on a server that a large job uses at the same time, or that it has to itself.

What is measured is how a server's I/O thread divides its time. So the server has a processor of its own, where it never
sleeps, and the ranks share the others, where those of the small job go before all else. Between their all-reduces they
sleep, or the large job's ranks would not get a processor. Over shared memory only: over TCP the kernel's work for all
of them would share the ranks' processors as well.
"""

import json
import os
import pathlib
import subprocess
import time

from contenders.case import Case, Measured
from contenders.shoal import Shoal
from rig.nodes import Processes, RigError
from rig.network import Network

LARGE_RANKS = 8
LARGE_BYTES = 64 << 20
ENDLESS = 1_000_000  # all-reduces
PAUSE_US = 1000  # of the small job's ranks
BEFORE_ALL_ELSE = ["chrt", "--fifo", "1"]  # whatever else the machine is doing
FLOW_TIMEOUT_S = 60


def split_processors() -> tuple[str, str]:
    """For the server, and for all ranks; as taskset takes them. RigError if there is one alone."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise RigError("a server with a processor of its own needs two processors, and there is one")
    return str(first), ",".join(map(str, others))


class SmallJob(Shoal):
    def __init__(
        self,
        name: str,
        programs: pathlib.Path,
        network: Network,
        processes: Processes,
        server_flags: list[str],
        perf_flags: list[str],
        beside_large_job: bool,
    ):
        server_processor, rank_processors = split_processors()
        self.beside_large_job = beside_large_job
        self.on_ranks_processors = ["taskset", "--cpu-list", rank_processors]
        super().__init__(
            name,
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
        large = self.start_large_job() if self.beside_large_job else []
        try:
            measured = super().measure(case, timeout_s)
            if ended := [rank.returncode for rank in large if rank.poll() is not None]:
                raise RigError(f"ranks of the large job ended with {ended}")
            return measured
        finally:
            for rank in large:
                rank.kill()
                rank.wait()
                self.processes.running.remove(rank)

    def start_large_job(self) -> list[subprocess.Popen]:
        """Its ranks, when several of its all-reduces have gone through the server."""
        before = self.bytes_in()
        flags = ["-b", str(LARGE_BYTES), "-n", str(ENDLESS), "-w", "0", "-c", "0"]
        ranks = []
        for rank in range(LARGE_RANKS):
            node = self.network.workers[rank % len(self.network.workers)]
            command = [*self.on_ranks_processors, *self.perf_command(node, "large")]
            command += ["--world-size", str(LARGE_RANKS), "--rank", str(rank), *flags]
            ranks.append(self.processes.start(node, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        deadline = time.monotonic() + FLOW_TIMEOUT_S
        while self.bytes_in() - before < 4 * LARGE_RANKS * LARGE_BYTES:
            if time.monotonic() > deadline:
                raise RigError(f"the large job did not come to four all-reduces within {FLOW_TIMEOUT_S} s")
            time.sleep(0.5)
        return ranks

    def bytes_in(self) -> int:
        """That the server has received, as it last told the scheduler."""
        command = [str(self.programs / "shoalctl"), "--scheduler", self.scheduler, "--json", "servers"]
        [output] = self.processes.run([(self.network.control, command)], timeout_s=30)
        return sum(int(server["load"].get("bytes_in", 0)) for server in json.loads(output)["servers"])
