"""An all-reduce of torch.distributed: one process a rank, for the whole measurement, because loading torch takes
seconds."""

import dataclasses
import json
import os
import pathlib
import sys
import time

from contenders.case import LAYERS, Case, Measured
from hosts.network import Network
from hosts.node import HostError
from hosts.process import Process, Processes

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
        self.log = processes.folder / f"{name}.log"
        self.ranks: list[Process] = []
        self.answers = 0  # that were read
        with self.log.open("w") as log:
            for rank, node in enumerate(network.workers):
                # -P: beside the script is a shoal.py, which is not torch's backend.
                command = [sys.executable, "-P", SCRIPT, "--rank", str(rank), "--world-size", str(len(network.workers))]
                command += ["--store", str(processes.folder / f"{name}-store"), "--backend", backend]
                command += ["--mode", mode, "--layers", str(LAYERS), "--ranks-per-node", str(network.ranks_per_node)]
                env = {"GLOO_SOCKET_IFNAME": node.device, "OMP_NUM_THREADS": "1", **(more_env or {})}
                if "SHOAL_LIBRARY" in os.environ:  # of another build; a process is started without settings of ours
                    env["SHOAL_LIBRARY"] = os.environ["SHOAL_LIBRARY"]
                if backend == "shoal" and network.switch is not None:
                    env["SHOAL_NET_DEVICE"] = node.device
                self.ranks.append(processes.start(command, env, node, log))
        self._answer(START_S)  # loading torch would slow down whoever is measured meanwhile

    def measure(self, case: Case, timeout_s: float) -> Measured:
        try:
            for process in self.ranks:
                process.say(json.dumps(dataclasses.asdict(case)))
        except BrokenPipeError:
            raise self.ended() from None
        result = self._answer(timeout_s)
        return Measured(result["op_times_us"], result["time_us"], result["cpu_time_us"], result["wrong"])

    def _answer(self, timeout_s: float):
        deadline = time.monotonic() + timeout_s
        while not (lines := self.ranks[0].lines_after(self.answers)):
            if not all(process.running() for process in self.ranks):
                raise self.ended()
            if time.monotonic() > deadline:
                raise HostError(f"{self.name} was not done after {timeout_s} s:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.01)
        self.answers += 1
        return json.loads(lines[0])

    def ended(self) -> HostError:
        return HostError(f"a rank of {self.name} has ended:\n{self.log.read_text()[-3000:]}")
