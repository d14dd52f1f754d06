"""The real programs of a shape, each on its node: started, ended, started again. No faults are decided here.

One thread: a child dies with the thread that started it (PR_SET_PDEATHSIG), so all are started by the one that stays.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from chaos.links import Links
from chaos.memory import ETCD_SNAPSHOT_COUNT
from chaos.progress import Progress
from chaos.shape import Job, Shape
from chaos.state_disk import StateDisk
from chaos.wall_clock import WallClocks

from hosts.cluster import LIBRARY, parse_documents, program
from hosts.etcd import member_command
from hosts.network import make_named_nodes
from hosts.node import CLONE_NEWNS, HostError, call_libc
from hosts.process import Process

CLONE_NEWTIME = 0x80
PORT = 7070
ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
# All other connections are the data plane's.
CONTROL_PORTS = [PORT, ETCD_PORT, ETCD_PEER_PORT]
START_PATIENCE_S = 60.0
CLOCK_APART_S = 100_000  # the monotonic clocks of nodes are so far apart, and more, as those of real machines are
STATE_FILE_DISK_BYTES = 8 << 20
ETCD_DISK_BYTES = 1 << 30  # etcd takes 64 MiB at once for its next writes; hours of them have room
RANK_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
OPEN_RANK_PROGRAM = pathlib.Path(__file__).with_name("open_rank.py")
SLOT_MEMORY = "256MiB"  # one server has room for the groups of all jobs


def private_mounts() -> None:
    """Mounts that this process makes are seen by it and its children alone, and end with them."""
    call_libc("unshare", CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, timeout=30)


@dataclasses.dataclass
class Running:
    """A process and what its watcher has read of it so far."""

    name: str
    process: Process
    started_at: float
    lines_read: int = 0

    def new_lines(self) -> list[str]:
        lines = self.process.lines_after(self.lines_read)
        self.lines_read += len(lines)
        return lines

    def tail(self, count: int = 6) -> str:
        return "\n".join(self.process.output.splitlines()[-count:])


class ChaosCluster:
    def __init__(self, shape: Shape, seed: int, folder: pathlib.Path):
        self.shape, self.seed, self.folder = shape, seed, folder
        self.clocks = WallClocks(folder)
        self.network, self.nodes = make_named_nodes(shape.nodes)
        self.links = Links(self.network, self.nodes, seed)
        self.running: dict[str, Running] = {}
        self.ended: list[Running] = []  # processes that were replaced; their output is kept for a report
        self.sockets: list[str] = []  # of what stood still, for a report
        self.stopped: set[str] = set()
        self.ports_of_servers: dict[str, list[int]] = {}
        self.incarnations = {job.name: 0 for job in shape.jobs}
        # The state of each scheduler without etcd, or of each etcd member, is on a disk of its own, which can be full.
        self.disks = {node: StateDisk(folder / f"disk-{node}", self.disk_bytes) for node in shape.control_nodes}

    @property
    def disk_bytes(self) -> int:
        return ETCD_DISK_BYTES if self.shape.has_etcd else STATE_FILE_DISK_BYTES

    # ---- starting

    def start_control(self) -> None:
        for disk in self.disks.values():
            disk.mount()
        for name in self.shape.etcd_names:
            self.start_etcd(name)
        for name in self.shape.etcd_names:
            self.wait_for_etcd(name)
        for name in self.shape.scheduler_names:
            self.start_scheduler(name)
        for name in self.shape.scheduler_names:
            self.running[name].process.wait_for_line(r"^shoal-scheduler listening on", START_PATIENCE_S)

    def start(self, name: str, node: str, command: list[str], environment: dict[str, str] | None = None) -> Running:
        home = self.nodes[node]
        offset = CLOCK_APART_S * (1 + self.shape.nodes.index(node))

        def before_exec() -> None:
            home.enter()
            os.setpriority(os.PRIO_PROCESS, 0, 0)  # the rig itself comes before what it watches
            call_libc("unshare", CLONE_NEWTIME)
            # Taken on by the program that is executed next; also a Python process of this node counts from there.
            with open("/proc/self/timens_offsets", "w", encoding="ascii") as offsets:
                offsets.write(f"monotonic {offset} 0\nboottime {offset} 0\n")

        surroundings = {"TMPDIR": str(self.folder)} | self.clocks.environment(node) | (environment or {})
        running = Running(name, Process(command, surroundings, before_exec), time.monotonic())
        if name in self.running:
            self.forget(name)
        self.running[name] = running
        return running

    def forget(self, name: str) -> None:
        """Ends what is left of the process that had the name."""
        before = self.running.pop(name)
        self.stopped.discard(name)
        before.process.end_group()
        self.ended.append(before)

    def start_etcd(self, name: str) -> Running:
        node = self.shape.node_of(name)
        addresses = {each: self.nodes[self.shape.node_of(each)].address for each in self.shape.etcd_names}
        clients, peers = (
            {each: f"{address}:{port}" for each, address in addresses.items()} for port in (ETCD_PORT, ETCD_PEER_PORT)
        )
        command = member_command(name, self.disks[node].folder / "data", clients, peers)
        return self.start(name, node, [*command, "--snapshot-count", str(ETCD_SNAPSHOT_COUNT)])

    def wait_for_etcd(self, name: str) -> None:
        node = self.nodes[self.shape.node_of(name)]
        health = f"http://{node.address}:{ETCD_PORT}/health"
        ask = f"import urllib.request as r; print(r.urlopen('{health}', timeout=5).read())"
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            with contextlib.suppress(HostError):
                if "true" in node.run([sys.executable, "-c", ask]):
                    return
            if time.monotonic() > deadline:
                raise HostError(f"{name} is not healthy: {self.running[name].tail()}")
            time.sleep(0.1)

    def start_scheduler(self, name: str) -> Running:
        node = self.shape.node_of(name)
        listen = f"{self.nodes[node].address}:{PORT}"
        command = [program("shoal-scheduler"), "--listen", listen, "--insecure-network"]
        command += ["--lease-ttl", str(self.shape.lease_ttl_ms)]
        if self.shape.has_etcd:
            etcds = ",".join(f"{self.nodes[each].address}:{ETCD_PORT}" for each in self.shape.control_nodes)
            command += ["--store", f"etcd://{etcds}/chaos", "--leader-lease", str(self.shape.leader_lease_ms)]
        else:
            command += ["--state-file", str(self.disks[node].folder / "state")]
        return self.start(name, node, command)

    @property
    def scheduler_addresses(self) -> str:
        return ",".join(f"{self.nodes[node].address}:{PORT}" for node in self.shape.control_nodes)

    def start_server(self, name: str) -> Running:
        node = self.shape.node_of(name)
        home = self.nodes[node]
        command = [program("shoal-server"), "--scheduler", self.scheduler_addresses, "--advertise", home.address]
        command += ["--name", name, "--net-device", home.device, "--timeout", "600000"]
        options = self.shape.options_of(name)
        if "--slot-memory" not in options:
            command += ["--slot-memory", SLOT_MEMORY]
        return self.start(name, node, [*command, *options])

    def start_job(self, job: Job) -> None:
        self.incarnations[job.name] += 1
        for rank in job.ranks:
            self.start_rank(job, rank)

    def start_rank(self, job: Job, rank: int) -> Running:
        name = job.rank_name(rank)
        (self.folder / name.replace("/", "-")).unlink(missing_ok=True)
        settings = {
            "job": dataclasses.asdict(job),
            "rank": rank,
            "seed": self.seed * 1000 + self.incarnations[job.name],
            "scheduler": self.scheduler_addresses,
            "incarnation": self.incarnations[job.name],
            "op_timeout_ms": self.shape.op_timeout_ms,
            "progress": str(self.folder / name.replace("/", "-")),
            "library": str(LIBRARY),
        }
        single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        # numpy's arrays go back to the kernel when they are freed: what then grows is kept by somebody.
        single |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "2"}
        program = OPEN_RANK_PROGRAM if job.is_open else RANK_PROGRAM
        return self.start(name, job.nodes[rank], [sys.executable, str(program), json.dumps(settings)], single)

    def start_open_rank(self, name: str) -> Running:
        job_name, rank = name.split("/")
        return self.start_rank(self.shape.job(job_name), int(rank))

    def progress_of(self, job: Job, rank: int) -> Progress:
        return Progress(self.folder / job.rank_name(rank).replace("/", "-"))

    # ---- asking

    def leader(self) -> str:
        """The scheduler that says that it leads; empty: none does."""
        if not self.shape.has_etcd:
            [name] = self.shape.scheduler_names
            return name if self.is_up(name) else ""
        for name in self.shape.scheduler_names:
            if self.is_up(name):
                output = self.running[name].process.output.splitlines()
                lines = [line for line in output if " scheduler at " in line]
                if lines and "leads, term" in lines[-1]:
                    return name
        return ""

    def is_up(self, name: str) -> bool:
        return name in self.running and self.running[name].process.running() and name not in self.stopped

    def shoalctl(self, *arguments: str, node: str = "", timeout_s: float = 10.0) -> list[dict]:
        """HostError if no scheduler answers."""
        home = self.nodes[node or self.shape.control_nodes[0]]
        command = [program("shoalctl"), "--scheduler", self.scheduler_addresses, *arguments, "--json"]
        command += ["--timeout", str(timeout_s)]
        return parse_documents(home.run(command, timeout_s=timeout_s + 30))

    def ask(self, *arguments: str) -> subprocess.Popen:
        """A shoalctl that runs beside everything else, from the first node that is not cut off; not waited for."""
        node = next(
            (each for each in self.shape.control_nodes if not self.links.silent[each] and not self.links.pulled[each]),
            self.shape.control_nodes[0],
        )
        command = [program("shoalctl"), "--scheduler", self.scheduler_addresses, "--timeout", "10", *arguments]
        return subprocess.Popen(
            command, preexec_fn=self.nodes[node].enter, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    # ---- ending

    def signal(self, name: str, number: int) -> None:
        """To a process that may have ended already."""
        running = self.running.get(name)
        if running is None or not running.process.running():
            return
        running.process.send(number)
        if number == signal.SIGSTOP:
            self.stopped.add(name)
        elif number == signal.SIGCONT:
            self.stopped.discard(name)

    def record_sockets(self, job: Job) -> None:
        """The TCP sockets of the job's nodes and of the servers' as they are now: what waits in their queues."""
        names = sorted({*job.nodes, *(self.shape.node_of(server) for server in self.shape.server_names)})
        self.sockets.append("\n".join(f"# {name}\n{self.sockets_of(name)}" for name in names))

    def sockets_of(self, node: str) -> str:
        try:
            command = ["ss", "--tcp", "--numeric", "--processes", "--info", "--options"]
            return self.nodes[node].run(command, timeout_s=5)
        except (HostError, OSError, subprocess.TimeoutExpired) as error:
            return f"not known: {error}"

    def write_logs(self, folder: pathlib.Path) -> None:
        """What every process said: NAME.1.log, NAME.2.log, ...; the sockets that were recorded: sockets.1.log, ..."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, sockets in enumerate(self.sockets, start=1):
            (folder / f"sockets.{number}.log").write_text(sockets, encoding="utf-8")
        counts: dict[str, int] = {}
        for running in [*self.ended, *self.running.values()]:
            counts[running.name] = counts.get(running.name, 0) + 1
            name = running.name.replace("/", "-")
            (folder / f"{name}.{counts[running.name]}.log").write_text(running.process.output + "\n", encoding="utf-8")

    def end(self) -> None:
        """Kills everything. Safe at any time, also twice."""
        self.links.close()
        for name in list(self.running):
            self.running.pop(name).process.end_group()
        self.network.__exit__()
        for disk in self.disks.values():
            disk.unmount()
