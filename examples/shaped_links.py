"""The demo's last part: each worker and each server on a node of its own, behind a link of a given rate.

The nodes are network namespaces of this machine with token buckets on both ends of each link, made by the measurements'
rig (bench/rig): CUBIC for every contender, and the kernel removes all of it when the processes in it have ended. Root,
and ip and tc (Debian's iproute2), are needed.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

EXAMPLES = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(EXAMPLES.parent / "bench"))

from rig.nodes import Processes, RigError  # noqa: E402
from rig.network import LinkShape, make_linked_nodes  # noqa: E402

WORKERS = 4
SERVERS = 4
RATE_MBIT = 200
STEPS = 8
BATCH = 2  # little to compute: the nodes share this machine's cores
ALL_REDUCE_MIB = 8
LIMIT_SECONDS = 180  # for what takes 20 on two idle cores


class NotHere(Exception):
    """Its text says why this machine cannot show it."""


class Links:
    """A cluster of nodes. `with` ends all that runs on them, and the nodes."""

    def __init__(self) -> None:
        """NotHere if this machine can't."""
        if os.geteuid() != 0:
            raise NotHere("network namespaces need root; run it as root to see it")
        if shutil.which("ip") is None or shutil.which("tc") is None:
            raise NotHere("ip and tc are missing (apt-get install iproute2)")
        shape = LinkShape(RATE_MBIT)
        try:
            self.network = make_linked_nodes([shape] * WORKERS, [shape] * SERVERS)
        except (RigError, OSError, subprocess.SubprocessError) as error:
            raise NotHere(f"this machine's kernel gives no shaped links: {' '.join(str(error).split())}") from None
        self.processes = Processes()

    def __enter__(self) -> "Links":
        return self

    def __exit__(self, *_exception) -> None:
        self.processes.stop()
        self.network.__exit__()

    def describe(self) -> str:
        return (
            f"{WORKERS} workers and {SERVERS} servers, each in a network namespace behind a link of {RATE_MBIT} Mbit/s"
            f" each way. They share this machine's {len(os.sched_getaffinity(0))} cores,\nso the batches are small and"
            " the links "
            "are what everything waits for."
        )

    def measure(
        self,
        scheduler_program: str,
        server_program: str,
        text: pathlib.Path,
        folder: pathlib.Path,
        rounds: int,
        steps: int = STEPS,
    ) -> dict:
        """Returns the summary of compare_backends.py. RigError if a process fails or they are not done in time."""
        control = self.network.control
        command = [scheduler_program, "--listen", f"{control.address}:0", "--log-events=false"]
        scheduler = self.processes.start_service(control, "scheduler", command).address
        for number, node in enumerate(self.network.servers):
            command = [server_program, "--scheduler", scheduler, "--advertise", node.address]
            command += ["--name", f"server-{number}", "--net-device", node.device]
            self.processes.start_service(node, f"server-{number}", command)
        summary = folder / "links.json"
        summary.unlink(missing_ok=True)
        command = [sys.executable, str(EXAMPLES / "compare_backends.py"), "--text", str(text), "--steps", str(steps)]
        command += ["--rounds", str(rounds), "--batch", str(BATCH), "--all-reduce-mib", str(ALL_REDUCE_MIB)]
        command += ["--summary", str(summary)]
        self.run_ranks(command, scheduler, folder)
        return json.loads(summary.read_text())

    def run_ranks(self, command: list[str], scheduler: str, folder: pathlib.Path) -> None:
        """One on each worker's node; rank 0's output is live, the others' and all errors go to logs in the folder."""
        ranks, logs = [], []
        for rank, node in enumerate(self.network.workers):
            environment = {
                "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(WORKERS), "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": self.network.workers[0].address, "MASTER_PORT": "29500",
                "GLOO_SOCKET_IFNAME": node.device, "SHOAL_NET_DEVICE": node.device,
                "SHOAL_SCHEDULER": scheduler, "SHOAL_JOB_NAME": "links", "SHOAL_MIN_SERVERS": str(SERVERS),
            }  # fmt: skip
            logs.append(folder / f"links-rank-{rank}.log")
            with logs[-1].open("w") as log:
                output = None if rank == 0 else log
                ranks.append(self.processes.start(node, command, environment, stdout=output, stderr=log))
        deadline = time.monotonic() + LIMIT_SECONDS
        waiting = list(range(WORKERS))
        while waiting:
            for rank in list(waiting):
                code = ranks[rank].poll()
                if code == 0:
                    waiting.remove(rank)
                elif code is not None:
                    raise RigError(f"rank {rank} ended with {code}; its log:\n{logs[rank].read_text()[-3000:]}")
            if waiting and time.monotonic() > deadline:
                raise RigError(f"rank {waiting[0]} was not done after {LIMIT_SECONDS} s; its log is {logs[waiting[0]]}")
            time.sleep(0.02)

    def explain(self, measured: dict) -> str:
        shoal, gloo = (statistics.median(measured[name]["all_reduce_ms"]) for name in ("shoal", "gloo"))
        bound = ALL_REDUCE_MIB * 2**20 * 8 / RATE_MBIT / 1000
        ring = 2 * (WORKERS - 1) / WORKERS
        return (
            f"A link carries {ALL_REDUCE_MIB} MiB in {bound:.0f} ms, headers apart. Through servers each rank sends and"
            f" receives that once: {shoal / bound:.2f} times that.\nA ring has to move 2(n-1)/n = {ring:g} times as"
            " much through"
            f" every link; Gloo took {gloo / shoal:.2f} times as long as Shoal.\nThe servers are {SERVERS} more nodes"
            " with links of "
            "their own: that is what Shoal trades for time."
        )
