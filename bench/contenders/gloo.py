"""torch's Gloo all-reduce: one process a rank, for the whole measurement, because loading torch takes seconds."""

import dataclasses
import json
import pathlib
import select
import subprocess
import sys
import time

from contenders.case import Case, Measured
from rig.hosts import Processes, RigError
from rig.network import Network

SCRIPT = str(pathlib.Path(__file__).parent / "gloo_rank.py")


class Gloo:
    def __init__(self, name: str, network: Network, processes: Processes):
        folder = pathlib.Path(processes.logs.name)
        self.log = folder / f"{name}.log"
        self.ranks: list[subprocess.Popen] = []
        with self.log.open("w") as log:
            for rank, host in enumerate(network.workers):
                command = [sys.executable, SCRIPT, "--rank", str(rank), "--world-size", str(len(network.workers))]
                command += ["--store", str(folder / f"{name}-store")]
                env = {"GLOO_SOCKET_IFNAME": host.device, "OMP_NUM_THREADS": "1"}
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
                self.ranks.append(processes.start(host, command, env, **pipes))

    def measure(self, case: Case, timeout_s: float) -> Measured:
        line = json.dumps(dataclasses.asdict(case)) + "\n"
        try:
            for process in self.ranks:
                process.stdin.write(line)
                process.stdin.flush()
        except BrokenPipeError:
            raise RigError(f"a rank of Gloo has ended:\n{self.log.read_text()[-3000:]}") from None
        output = self.ranks[0].stdout
        deadline = time.monotonic() + timeout_s
        while not select.select([output], [], [], 0.2)[0]:
            if any(process.poll() is not None for process in self.ranks):
                raise RigError(f"a rank of Gloo has ended:\n{self.log.read_text()[-3000:]}")
            if time.monotonic() > deadline:
                raise RigError(f"Gloo was not done after {timeout_s} s:\n{self.log.read_text()[-3000:]}")
        answer = output.readline()
        if not answer:
            raise RigError(f"rank 0 of Gloo has ended:\n{self.log.read_text()[-3000:]}")
        result = json.loads(answer)
        return Measured(result["op_times_us"], result["time_us"], result["cpu_time_us"], result["wrong"])
