"""The faults that there are: what each is done to, how long it lasts, how strong it is. Values only."""

import dataclasses
import random
from collections.abc import Callable

from chaos.shape import SERVER_JOINS_LATER, Shape


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    at_s: float  # after the schedule's start
    for_s: float  # from its begin until it is mended (a killed process: started again)
    target: str  # a node or a process
    peer: str = ""  # the other end, of faults of one path
    amount: float = 0.0  # what it means depends on the kind

    def __str__(self) -> str:
        path = f" - {self.peer}" if self.peer else ""
        amount = f" {self.amount:g} {KINDS[self.kind].unit}" if KINDS[self.kind].unit else ""
        return f"{self.at_s:8.2f} s  {self.kind:16} {self.target}{path}{amount}, for {self.for_s:.2f} s"


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    targets: Callable[[Shape], list[str]]
    peers: Callable[[Shape, str], list[str]] | None = None
    unit: str = ""
    amounts: tuple[float, ...] = (0.0,)
    shortest_s: float = 0.1
    longest_s: float = 60.0
    ends_jobs: bool = False  # a job that it concerns may fail: drawn less often
    drawn: bool = True


def all_nodes(shape: Shape) -> list[str]:
    return shape.nodes


def path_peers(shape: Shape, node: str) -> list[str]:
    """Nodes that the node talks with."""
    if node in shape.control_nodes:
        return [other for other in shape.nodes if other != node]
    talkers = shape.control_nodes + (shape.worker_names if node in shape.server_nodes else shape.server_nodes)
    return [other for other in talkers if other != node]


def schedulers(shape: Shape) -> list[str]:
    return shape.scheduler_names


def etcds(shape: Shape) -> list[str]:
    return shape.etcd_names


def servers(shape: Shape) -> list[str]:
    return shape.server_names


def ranks(shape: Shape) -> list[str]:
    return shape.rank_names


def open_ranks(shape: Shape) -> list[str]:
    return shape.open_rank_names


def jobs(shape: Shape) -> list[str]:
    return [job.name for job in shape.jobs if not job.is_open]


def disks(shape: Shape) -> list[str]:
    """Of the state: a scheduler's file, or that of the etcd member on the node, which ends when it can't write."""
    return shape.control_nodes


ALL_KINDS = (
    # Links. A silent one keeps its light on; a pulled one is seen to be down.
    Kind("node-silent", all_nodes),
    Kind("node-pulled", all_nodes),
    Kind("node-deaf", all_nodes),  # nothing comes in, all goes out
    Kind("node-mute", all_nodes),  # nothing goes out, all comes in
    Kind("path-silent", all_nodes, path_peers),
    Kind("path-one-way", all_nodes, path_peers),  # from target to peer nothing gets through
    Kind("link-loss", all_nodes, unit="% lost", amounts=(0.1, 1.0, 5.0), shortest_s=1.0),
    Kind("link-delay", all_nodes, unit="ms", amounts=(2.0, 20.0, 150.0), shortest_s=1.0),
    Kind("link-reorder", all_nodes, unit="% overtake", amounts=(2.0, 25.0), shortest_s=1.0),
    Kind("link-duplicate", all_nodes, unit="% twice", amounts=(1.0, 20.0), shortest_s=1.0),
    Kind("link-corrupt", all_nodes, unit="% changed", amounts=(0.1, 2.0), shortest_s=1.0),
    Kind("payload-corrupt", servers, unit="% changed unseen by TCP", amounts=(0.2,), shortest_s=1.0, longest_s=10.0),
    Kind("link-slow", all_nodes, unit="Mbit/s", amounts=(10.0, 50.0, 200.0), shortest_s=1.0),
    # Processes. What is killed or ended is started again at the fault's end.
    Kind("server-stop", servers),
    Kind("server-kill", servers, longest_s=30.0),
    Kind("server-term", servers, longest_s=30.0),
    Kind("server-drain", servers, shortest_s=1.0, longest_s=30.0),
    Kind(SERVER_JOINS_LATER, servers, drawn=False),  # absent from the start; for_s is 0
    Kind("scheduler-stop", schedulers),
    Kind("scheduler-kill", schedulers, longest_s=30.0),
    Kind("scheduler-term", schedulers, longest_s=30.0),
    Kind("etcd-stop", etcds),
    Kind("etcd-kill", etcds, longest_s=30.0),
    Kind("rank-stop", ranks, ends_jobs=True),
    Kind("rank-kill", ranks, longest_s=0.1, ends_jobs=True),
    Kind("rank-term", ranks, longest_s=0.1, ends_jobs=True),
    Kind("job-restart", jobs, longest_s=1.0, ends_jobs=True),  # all ranks are killed, and start again for_s later
    # Of open jobs: the others go on. Whoever was killed or has left comes again at the fault's end.
    Kind("open-rank-stop", open_ranks, shortest_s=6.0, longest_s=20.0),  # longer than a lease: it is taken for lost
    Kind("open-rank-kill", open_ranks, longest_s=20.0),
    Kind("open-rank-leave", open_ranks, longest_s=20.0),  # in good order, in the middle of a group's ops
    # Surroundings of a node.
    Kind("clock-jump", all_nodes, unit="s", amounts=(-3600.0, -2.0, 2.0, 3600.0), shortest_s=1.0),
    Kind("disk-full", disks),
)
KINDS = {kind.name: kind for kind in ALL_KINDS}

NETWORK_CUTS = {"node-silent", "node-pulled", "node-deaf", "node-mute", "path-silent", "path-one-way"}
IMPAIRMENTS = {kind.name for kind in ALL_KINDS if kind.name.startswith(("link-", "payload-"))}
SERVER_GONE = {"server-kill", "server-term", "server-drain", SERVER_JOINS_LATER}
PROCESS_GONE = SERVER_GONE | {"scheduler-kill", "scheduler-term", "etcd-kill"}
RANK_STOPPED = {"rank-stop", "open-rank-stop"}
PROCESS_STOPPED = {"server-stop", "scheduler-stop", "etcd-stop"} | RANK_STOPPED
OPEN_RANK_GONE = {"open-rank-kill", "open-rank-leave"}
RANK_GONE = {"rank-kill", "rank-term", "job-restart"} | OPEN_RANK_GONE


def check(fault: Fault, shape: Shape) -> None:
    """ValueError if the fault can't be done to a cluster of this shape."""
    kind = KINDS.get(fault.kind)
    if kind is None:
        raise ValueError(f"there is no fault {fault.kind!r}; there are {', '.join(sorted(KINDS))}")
    if fault.target not in kind.targets(shape):
        raise ValueError(f"{fault.kind} can't be done to {fault.target!r}; to one of {kind.targets(shape)}")
    if (kind.peers is None) != (fault.peer == ""):
        raise ValueError(f"{fault.kind} of {fault.target} {'needs a' if kind.peers else 'has no'} peer")
    if fault.peer and (fault.peer not in shape.nodes or fault.peer == fault.target):
        raise ValueError(f"{fault.kind} of {fault.target} has the peer {fault.peer!r}, which is no other node")
    if fault.at_s < 0 or fault.for_s < 0:
        raise ValueError(f"{fault} begins before the start, or ends before its begin")


def concerns_control(fault: Fault) -> bool:
    """Whether another scheduler may have to lead after it."""
    return fault.target.startswith(("scheduler-", "etcd-", "control-")) or fault.kind == "clock-jump"


def draw(kind: Kind, shape: Shape, at_s: float, for_s: float, source: random.Random) -> Fault:
    target = source.choice(kind.targets(shape))
    peer = source.choice(kind.peers(shape, target)) if kind.peers else ""
    return Fault(kind.name, round(at_s, 3), round(for_s, 3), target, peer, source.choice(kind.amounts))


def kinds_for(shape: Shape) -> list[Kind]:
    """Those that can be drawn for this shape."""
    return [kind for kind in ALL_KINDS if kind.drawn and kind.targets(shape)]
