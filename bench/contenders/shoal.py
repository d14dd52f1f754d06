"""Shoal: a scheduler and servers for the whole measurement, and shoal-perf, one process a rank, for each case."""

import json
import pathlib
import re
import subprocess
import uuid

from contenders.case import Case, Measured
from hosts.network import Network
from hosts.node import Node
from hosts.process import Processes


# core/flow_plan.h
ASSUMED_PORT_BUFFER_KIB = 256


def has_flag(program: pathlib.Path, flag: str) -> bool:
    """Whether this build's program takes the flag."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, check=False).stdout
    return re.search(rf"--{flag}(?![\w-])", text) is not None


class Shoal:
    def __init__(
        self,
        programs: pathlib.Path,
        network: Network,
        processes: Processes,
        server_flags: list[str],
        perf_flags: list[str],
        env: dict[str, str] | None = None,
        colocating_ranks: int = 0,
        scheduler_flags: list[str] | None = None,
    ):
        self.programs = programs
        self.network = network
        self.processes = processes
        self.perf_flags = perf_flags
        self.env = env or {}
        self.server_count = len(network.servers) + colocating_ranks
        control = network.control.address
        command = [str(programs / "shoal-scheduler"), "--listen", f"{control}:0", "--log-events=false"]
        command += scheduler_flags or []
        # Where ports hold something else than is assumed, an operator says so.
        unlike_assumed = network.port_buffer_kib not in (None, ASSUMED_PORT_BUFFER_KIB)
        if unlike_assumed and has_flag(programs / "shoal-scheduler", "port-buffer"):
            command += ["--port-buffer", f"{network.port_buffer_kib}K"]
        # The rig's networks have nobody else in them. Older builds know no such option, and pass over the variable.
        environment = {"SHOAL_SCHEDULER_INSECURE_NETWORK": "1"}
        self.scheduler = processes.start(command, environment, network.control).listens_at()
        for number, node in enumerate(network.servers):
            command = [str(programs / "shoal-server"), "--scheduler", self.scheduler]
            command += ["--advertise", node.address]
            command += ["--name", f"server-{number}", "--net-device", node.device, *server_flags]
            processes.start(command, self.env, node).listens_at()

    def perf_command(self, node: Node, job: str) -> list[str]:
        """Without its rank and what it measures."""
        command = [str(self.programs / "shoal-perf"), "--scheduler", self.scheduler, "--job", job]
        return [*command, "--min-servers", str(self.server_count), "--net-device", node.device, *self.perf_flags]

    def measure(self, case: Case, timeout_s: float) -> Measured:
        report = self.processes.folder / f"{uuid.uuid4().hex}.json"
        commands = []
        for rank, node in enumerate(self.network.workers):
            command = [*self.perf_command(node, report.stem), "--json", str(report)]
            command += ["--world-size", str(len(self.network.workers)), "--rank", str(rank)]
            command += ["-b", str(case.size_bytes), "-n", str(case.iterations), "-w", str(case.warmup)]
            command += ["-c", "1", "--in-flight", str(case.in_flight)]
            commands.append((node, command))
        self.processes.run(commands, timeout_s, self.env)
        written = json.loads(report.read_text())
        report.unlink()
        per_server: dict[str, int] = {}
        for shard in written["servers"]:
            per_server[shard["name"]] = per_server.get(shard["name"], 0) + shard["bytes_pushed"]
        [result] = written["results"]
        return Measured(
            result["op_times_us"], result["time_us"], result["cpu_time_us"], result["wrong"], list(per_server.values()),
            checks=2,
        )  # fmt: skip
