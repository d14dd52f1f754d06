"""An all-reduce of torch.distributed: one process a rank, for the whole measurement, because loading torch takes
seconds."""

import dataclasses
import json
import pathlib
import select
import subprocess
import sys
import time

from contenders.case import LAYERS, Case, Measured
from rig.nodes import Processes, RigError
from rig.network import Network

START_S = 180
SCRIPT = str(pathlib.Path(__file__).parent / "torch_rank.py")


class TorchRanks:
    """`mode` ddp: an all-reduce is the backward pass of a DistributedDataParallel model whose gradients have that size;
    ddp-alone: without the exchange; step: a whole training step, which computes as the case says; replicas:
    an all-reduce among the ranks with the same index on their nodes, of all indices at the same time."""

    def __init__(
        self,
        name: str,
        backend: str,
        network: Network,
        processes: Processes,
        mode: str = "all-reduce",
        more_env: dict[str, str] | None = None,
    ):
        self.name = name
        folder = pathlib.Path(processes.logs.name)
        self.log = folder / f"{name}.log"
        self.ranks: list[subprocess.Popen] = []
        with self.log.open("w") as log:
            for rank, node in enumerate(network.workers):
                # -P: beside the script is a shoal.py, which is not torch's backend.
                command = [sys.executable, "-P", SCRIPT, "--rank", str(rank), "--world-size", str(len(network.workers))]
                command += ["--store", str(folder / f"{name}-store"), "--backend", backend]
                command += ["--mode", mode, "--layers", str(LAYERS), "--ranks-per-node", str(network.ranks_per_node)]
                env = {"GLOO_SOCKET_IFNAME": node.device, "OMP_NUM_THREADS": "1", **(more_env or {})}
                if backend == "shoal" and network.switch >= 0:
                    env["SHOAL_NET_DEVICE"] = node.device
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
                self.ranks.append(processes.start(node, command, env, **pipes))
        self._answer(START_S)  # loading torch would slow down whoever is measured meanwhile

    def measure(self, case: Case, timeout_s: float) -> Measured:
        line = json.dumps(dataclasses.asdict(case)) + "\n"
        try:
            for process in self.ranks:
                process.stdin.write(line)
                process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None
        result = self._answer(timeout_s)
        return Measured(result["op_times_us"], result["time_us"], result["cpu_time_us"], result["wrong"])

    def _answer(self, timeout_s: float):
        output = self.ranks[0].stdout
        deadline = time.monotonic() + timeout_s
        while not select.select([output], [], [], 0.2)[0]:
            if any(process.poll() is not None for process in self.ranks):
                raise self.ended()
            if time.monotonic() > deadline:
                raise RigError(f"{self.name} was not done after {timeout_s} s:\n{self.log.read_text()[-3000:]}")
        answer = output.readline()
        if not answer:
            raise self.ended()
        return json.loads(answer)

    def ended(self) -> RigError:
        return RigError(f"a rank of {self.name} has ended:\n{self.log.read_text()[-3000:]}")
