"""The demo's last part: each worker and each server on a node of its own, behind a link of a given rate.

The nodes are network namespaces of this machine with token buckets on both ends of each link, as tests have them
(tests/hosts): CUBIC for every contender, and the kernel removes all of it when the processes in it have ended. Root,
and ip and tc (Debian's iproute2), are needed.
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(EXAMPLES.parent / "tests"))

from hosts.cluster import PROGRAMS, Cluster  # noqa: E402
from hosts.network import LinkShape, make_linked_nodes  # noqa: E402
from hosts.node import HostError  # noqa: E402
from hosts.process import wait_for_all  # noqa: E402

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

    def __init__(self, programs: pathlib.Path = PROGRAMS) -> None:
        """NotHere if this machine can't."""
        if os.geteuid() != 0:
            raise NotHere("network namespaces need root; run it as root to see it")
        if shutil.which("ip") is None or shutil.which("tc") is None:
            raise NotHere("ip and tc are missing (apt-get install iproute2)")
        shape = LinkShape(RATE_MBIT)
        try:
            self.network = make_linked_nodes([shape] * WORKERS, [shape] * SERVERS)
        except (HostError, OSError, subprocess.SubprocessError) as error:
            raise NotHere(f"this machine's kernel gives no shaped links: {' '.join(str(error).split())}") from None
        self.cluster = Cluster(self.network, programs)

    def __enter__(self) -> "Links":
        return self

    def __exit__(self, *_exception) -> None:
        self.cluster.end()
        self.network.__exit__()

    def describe(self) -> str:
        return (
            f"{WORKERS} workers and {SERVERS} servers, each in a network namespace behind a link of {RATE_MBIT} Mbit/s"
            f" each way. They share this machine's {len(os.sched_getaffinity(0))} cores,\nso the batches are small and"
            " the links "
            "are what everything waits for."
        )

    def measure(self, text: pathlib.Path, folder: pathlib.Path, rounds: int, steps: int = STEPS) -> dict:
        """Returns the summary of compare_backends.py. HostError if a process fails or they are not done in time."""
        self.cluster.start_scheduler("--log-events=false")
        for node in self.network.servers:
            with self.cluster.on(node):
                self.cluster.start_server(node.name, "--net-device", node.device)
        summary = folder / "links.json"
        summary.unlink(missing_ok=True)
        command = [sys.executable, str(EXAMPLES / "compare_backends.py"), "--text", str(text), "--steps", str(steps)]
        command += ["--rounds", str(rounds), "--batch", str(BATCH), "--all-reduce-mib", str(ALL_REDUCE_MIB)]
        command += ["--summary", str(summary)]
        self.run_ranks(command, folder)
        return json.loads(summary.read_text())

    def run_ranks(self, command: list[str], folder: pathlib.Path) -> None:
        """One on each worker's node; rank 0's output is live, the others' and all errors go to logs in the folder."""
        ranks = []
        with contextlib.ExitStack() as logs:
            for rank, node in enumerate(self.network.workers):
                environment = {
                    "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(WORKERS), "OMP_NUM_THREADS": "1",
                    "MASTER_ADDR": self.network.workers[0].address, "MASTER_PORT": "29500",
                    "GLOO_SOCKET_IFNAME": node.device, "SHOAL_NET_DEVICE": node.device, "PYTHONUNBUFFERED": "1",
                    "SHOAL_SCHEDULER": self.cluster.scheduler_address, "SHOAL_JOB_NAME": "links",
                    "SHOAL_MIN_SERVERS": str(SERVERS),
                }  # fmt: skip
                log = logs.enter_context((folder / f"links-rank-{rank}.log").open("w+", buffering=1))
                on_line = functools.partial(print, file=sys.stdout if rank == 0 else log, flush=True)
                process = self.cluster.start(command, os.environ | environment, node, log, on_line)
                ranks.append((node, process, log))
            wait_for_all(ranks, LIMIT_SECONDS)

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
