"""A scheduler and servers that are killed and restarted, and the example's training on them.

On one node, or on nodes of several ranks, which reduce inside their node and are rails of servers elsewhere.

One thread. HostError wherever a program does not do what it should.
"""

import dataclasses
import json
import pathlib
import re
import signal
import sys
import time

import hosts.cluster
from hosts.network import Network, make_linked_nodes, make_one_node
from hosts.node import HostError, Node
from hosts.process import Process

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
        """Links between nodes have no limit. HostError without root."""
        if not self.has_rails:
            return make_one_node(self.ranks, self.servers)
        return make_linked_nodes([None] * self.nodes, [None] * self.servers, self.ranks // self.nodes)


class Cluster(hosts.cluster.Cluster):
    """To be entered, and begun."""

    def __init__(self, programs: pathlib.Path, network: Network, shape: Shape):
        super().__init__(network, programs)
        self.shape = shape

    def begin(self) -> None:
        self.restart_scheduler()
        self.numbered = [self.start_number(number) for number in range(self.shape.servers)]

    def restart_scheduler(self) -> None:
        """With what an earlier one knew, where that one was."""
        options = ["--state-file", str(self.folder / "state")]
        self.start_scheduler(*options, listen=self.scheduler_address, lease_ttl_ms=self.shape.lease_ttl_ms)

    def start_number(self, number: int) -> Process:
        """Registered when this returns. Of those on the ranks' node the last is reached over TCP, the others through
        shared memory."""
        node = self.network.servers[number]
        options = ["--net-device", node.device, *(["--network-only"] if number == self.shape.servers - 1 else [])]
        with self.on(node):
            return self.start_server(f"server-{number}", *options)

    def kill_server(self, number: int) -> float:
        """When, on the monotonic clock."""
        return kill(self.numbered[number])

    def restart_server(self, number: int) -> None:
        self.numbered[number] = self.start_number(number)

    def stop_server(self, number: int) -> None:
        """In good order: it lets its groups go first."""
        server = self.numbered[number]
        server.send(signal.SIGTERM)
        if server.wait(STOP_LIMIT_S) != 0 or "although groups are open" in server.output:
            raise HostError(f"server-{number} did not leave in good order ({server.code}):\n{server}")

    def kill_scheduler(self) -> float:
        return kill(self.scheduler)


def kill(process: Process) -> float:
    at = time.monotonic()
    process.send(signal.SIGKILL)
    process.wait()
    return at


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
        self.processes = [self.start(cluster, nodes, number, program) for number in range(len(nodes))]
        self.lines_read = 0  # of those by which rank 0 says how far it is
        self.steps_done = 0

    def start(self, cluster: Cluster, nodes: list[Node], number: int, program: list[str]) -> Process:
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
            "SHOAL_SCHEDULER": cluster.scheduler_address,
            "SHOAL_JOB_NAME": "survival",
            "SHOAL_MIN_SERVERS": str(shape.servers),
            "SHOAL_NET_DEVICE": node.device,
            "SHOAL_NODE_REDUCE": "auto" if shape.has_rails else "off",
            "SHOAL_COLOCATE": "off",
            "GLOO_SOCKET_IFNAME": node.device,
            "OMP_NUM_THREADS": "1",
        }
        return cluster.start(command, env, node)

    def allow_steps(self, steps: int) -> None:
        """It does so many steps and then waits for the next call. Not fewer than it was allowed before."""
        new = self.gate.with_name(self.gate.name + ".new")
        new.write_text(str(steps))
        new.replace(self.gate)

    def read_steps_done(self) -> int:
        """How many steps rank 0 has said to be done by now."""
        lines = self.processes[0].lines_after(self.lines_read)
        self.lines_read += len(lines)
        for match in filter(None, map(STEP_DONE.match, lines)):
            self.steps_done = int(match.group(1))
        return self.steps_done

    def wait_for_step(self, step: int) -> None:
        """Returns when so many are done. HostError if the training ends earlier or takes longer than its limit."""
        while self.read_steps_done() < step:
            for process in self.processes:
                if not process.running():
                    raise HostError(f"the training ended with {process.code} before step {step}")
            self.wait_a_moment()

    def finish(self) -> dict:
        """Its summary. HostError if an op failed, or the ranks' weights differ."""
        while codes := {process.code for process in self.processes} - {0}:
            if codes != {None}:
                raise HostError(f"the training ended with {codes}")
            self.wait_a_moment()
        return json.loads(self.summary.read_text())

    def wait_a_moment(self) -> None:
        if time.monotonic() > self.deadline:
            raise HostError(f"out of time at step {self.steps_done}")
        time.sleep(POLL_S)
