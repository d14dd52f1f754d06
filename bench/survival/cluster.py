"""A scheduler and servers that are killed and restarted, and the example's training on them.

On one node, or on nodes of several ranks, which reduce inside their node and are rails of servers elsewhere.

One thread. RigError wherever a program does not do what it should.
"""

import dataclasses
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

from rig.network import Network, make_linked_nodes, make_one_node
from rig.nodes import Node, Processes, RigError, Service

STOP_LIMIT_S = 60
POLL_S = 0.01
MASTER_PORT = 29500  # of torchrun, in a namespace of the run's own
STEP_DONE = re.compile(r"step +(\d+)/")  # what train_gpt.py says


@dataclasses.dataclass(frozen=True)
class Shape:
    """Of a cluster and of what is trained on it."""

    nodes: int = 1
    ranks: int = 4  # of all nodes together
    servers: int = 3
    steps: int = 1000
    model: tuple[str, ...] = ()  # options of examples/train_gpt.py
    lease_ttl_ms: int = 5000  # shoal-scheduler's default

    @property
    def has_rails(self) -> bool:
        return self.nodes > 1

    def make_network(self) -> Network:
        """Links between nodes have no limit. RigError without root."""
        if not self.has_rails:
            return make_one_node(self.ranks, self.servers)
        return make_linked_nodes([None] * self.nodes, [None] * self.servers, self.ranks // self.nodes)


class Cluster:
    def __init__(self, programs: pathlib.Path, network: Network, processes: Processes, shape: Shape):
        self.programs = programs
        self.network = network
        self.node = network.control
        self.processes = processes
        self.shape = shape
        self.folder = pathlib.Path(processes.logs.name)
        self.starts = 0
        self.scheduler = self.start_scheduler(f"{self.node.address}:0")
        self.servers = [self.start_server(number) for number in range(shape.servers)]

    def start(self, node: Node, name: str, command: list[str]) -> Service:
        self.starts += 1
        return self.processes.start_service(node, f"{self.starts}-{name}", command)

    def start_scheduler(self, listen: str) -> Service:
        """With what an earlier one knew."""
        command = [str(self.programs / "shoal-scheduler"), "--listen", listen]
        command += ["--state-file", str(self.folder / "state"), "--lease-ttl", str(self.shape.lease_ttl_ms)]
        return self.start(self.node, "scheduler", command)

    def start_server(self, number: int) -> Service:
        """Registered when this returns. Of those on the ranks' node the last is reached over TCP, the others through
        shared memory."""
        node = self.network.servers[number]
        command = [str(self.programs / "shoal-server"), "--scheduler", self.scheduler.address]
        command += ["--advertise", node.address, "--net-device", node.device, "--name", f"server-{number}"]
        if number == self.shape.servers - 1:
            command.append("--network-only")
        return self.start(node, f"server-{number}", command)

    def kill_server(self, number: int) -> float:
        """When, on the monotonic clock."""
        return kill(self.servers[number])

    def restart_server(self, number: int) -> None:
        self.servers[number] = self.start_server(number)

    def stop_server(self, number: int) -> None:
        """In good order: it lets its groups go first."""
        service = self.servers[number]
        service.process.send_signal(signal.SIGTERM)
        try:
            code = service.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise RigError(f"server-{number} is there {STOP_LIMIT_S} s after SIGTERM:\n{tail(service.log)}") from None
        if code != 0 or "although groups are open" in service.log.read_text():
            raise RigError(f"server-{number} did not leave in good order ({code}):\n{tail(service.log)}")

    def kill_scheduler(self) -> float:
        return kill(self.scheduler)

    def restart_scheduler(self) -> None:
        self.scheduler = self.start_scheduler(self.scheduler.address)

    def events(self) -> list[dict]:
        """What the scheduler that runs now has seen."""
        command = [str(self.programs / "shoalctl"), "--scheduler", self.scheduler.address, "events", "--json"]
        [output] = self.processes.run([(self.node, command)], STOP_LIMIT_S)
        return json.loads(output)["events"]


def kill(service: Service) -> float:
    at = time.monotonic()
    service.process.kill()
    service.process.wait()
    return at


def tail(log: pathlib.Path) -> str:
    return log.read_text(errors="replace")[-3000:]


class Training:
    """One run of examples/train_gpt.py, with a torchrun on each node. Started by the constructor.

    It does no more steps than `allow_steps` was last given, so that it is not over before what is to happen while it
    trains, however slow the machine is."""

    def __init__(self, cluster: Cluster, text: pathlib.Path, limit_s: float, allowed_steps: int):
        shape = cluster.shape
        self.deadline = time.monotonic() + limit_s
        self.summary = cluster.folder / "training.json"
        self.gate = cluster.folder / "allowed_steps"
        self.allow_steps(allowed_steps)
        program = [str(pathlib.Path(__file__).with_name("gated_training.py")), str(self.gate)]
        program += ["--backend", "shoal", "--text", str(text)]
        program += ["--steps", str(shape.steps), "--report-every", "1", *shape.model, "--summary", str(self.summary)]
        nodes = list(dict.fromkeys(cluster.network.workers))
        self.logs = [cluster.folder / f"training-{number}.log" for number in range(len(nodes))]
        self.processes = [
            self.start(cluster, nodes, number, program) for number in range(len(nodes))
        ]
        self.reader = self.logs[0].open(errors="replace")  # rank 0 says how far it is
        self.unread = ""  # of a line that is still being written
        self.steps_done = 0

    def start(self, cluster: Cluster, nodes: list[Node], number: int, program: list[str]) -> subprocess.Popen:
        shape, node = cluster.shape, nodes[number]
        command = [sys.executable, "-m", "torch.distributed.run", "--local-addr", node.address]
        if shape.has_rails:
            command += ["--nnodes", str(len(nodes)), "--node-rank", str(number)]
            command += ["--master-addr", nodes[0].address, "--master-port", str(MASTER_PORT)]
        else:
            command += ["--standalone"]
        command += ["--nproc-per-node", str(shape.ranks // shape.nodes), *program]
        env = {
            "SHOAL_LIBRARY": str(cluster.programs.parent / "lib/libshoal.so"),
            "SHOAL_SCHEDULER": cluster.scheduler.address,
            "SHOAL_JOB_NAME": "survival",
            "SHOAL_MIN_SERVERS": str(shape.servers),
            "SHOAL_NET_DEVICE": node.device,
            "SHOAL_NODE_REDUCE": "auto" if shape.has_rails else "off",
            "SHOAL_COLOCATE": "off",
            "GLOO_SOCKET_IFNAME": node.device,
            "OMP_NUM_THREADS": "1",
        }
        with self.logs[number].open("w") as sink:
            pipes = {"stdin": subprocess.DEVNULL, "stdout": sink, "stderr": subprocess.STDOUT}
            return cluster.processes.start(node, command, env, **pipes)

    def allow_steps(self, steps: int) -> None:
        """It does so many steps and then waits for the next call. Not fewer than it was allowed before."""
        new = self.gate.with_name(self.gate.name + ".new")
        new.write_text(str(steps))
        new.replace(self.gate)

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *_exception) -> None:
        self.reader.close()

    def read_steps_done(self) -> int:
        """How many steps rank 0 has said to be done by now."""
        *lines, self.unread = (self.unread + self.reader.read()).split("\n")
        for line in lines:
            if match := STEP_DONE.match(line):
                self.steps_done = int(match.group(1))
        return self.steps_done

    def wait_for_step(self, step: int) -> None:
        """Returns when so many are done. RigError if the training ends earlier or takes longer than its limit."""
        while self.read_steps_done() < step:
            for process, log in zip(self.processes, self.logs):
                if process.poll() is not None:
                    raise RigError(f"the training ended with {process.returncode} before step {step}:\n{tail(log)}")
            if time.monotonic() > self.deadline:
                raise RigError(f"out of time at step {self.steps_done}:\n{tail(self.logs[0])}")
            time.sleep(POLL_S)

    def finish(self) -> dict:
        """Its summary. RigError if an op failed, or the ranks' weights differ."""
        while any(process.poll() is None for process in self.processes):
            for process, log in zip(self.processes, self.logs):
                if process.poll():
                    raise RigError(f"the training ended with {process.returncode}:\n{tail(log)}")
            if time.monotonic() > self.deadline:
                raise RigError(f"out of time:\n{tail(self.logs[0])}")
            time.sleep(POLL_S)
        for process, log in zip(self.processes, self.logs):
            if process.returncode != 0:
                raise RigError(f"the training ended with {process.returncode}:\n{tail(log)}")
        return json.loads(self.summary.read_text())
