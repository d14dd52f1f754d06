"""What a cluster under chaos consists of: nodes, schedulers, servers, jobs and their work. Values only."""

import dataclasses
import functools
from collections.abc import Sequence

SERVER_JOINS_LATER = "server-added"


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    nodes: tuple[str, ...]  # of rank 0, 1, ...; ranks on a server's node share memory with that server
    group_slots: int = 2  # groups that are open at a time; the first one has all ranks
    least_bytes: int = 1 << 10  # of a tensor
    most_bytes: int = 1 << 20
    chunk_bytes: tuple[int, ...] = (0, 8192, 65536, 1 << 20)  # one of them for each group
    least_ops: int = 5  # of a group, before it is closed and the slot's next one is made
    most_ops: int = 60
    in_flight: int = 3  # ops that a group has open at a time, at most
    pause_ms: float = 40.0  # after each op, on average
    late_ms: float = 0.0  # rank 0 comes so much later to each op
    churn: int = 0  # groups that are made and closed, without an op, before the work begins
    network_only: bool = False
    node_reduce: str = "off"
    plain: bool = False  # float32 sums alone
    min_servers: int = 1
    min_ranks: int = 0  # not 0: an open job, whose groups go on without lost ranks (F22 to F24); a rank is its identity

    @property
    def ranks(self) -> range:
        return range(len(self.nodes))

    @property
    def is_open(self) -> bool:
        return self.min_ranks > 0

    @property
    def most_bytes_under_way(self) -> int:
        """Of one rank: of the tensors of all its ops that are open."""
        return self.group_slots * self.in_flight * self.most_bytes

    def needs_servers(self, members: Sequence[int]) -> bool:
        """Whether a group of these ranks does: those that are all on one node reduce among themselves."""
        alone = len(members) > 1 and len({self.nodes[rank] for rank in members}) == 1
        return not alone or self.node_reduce == "off" or self.network_only

    def rank_name(self, rank: int) -> str:
        return f"{self.name}/{rank}"


@dataclasses.dataclass(frozen=True)
class Shape:
    jobs: tuple[Job, ...]
    worker_nodes: int
    servers: int = 3
    schedulers: int = 3  # with one etcd member beside each; 0: one scheduler with its state in a file
    lease_ttl_ms: int = 5000
    leader_lease_ms: int = 3000
    op_timeout_ms: int = 120_000
    server_options: tuple[tuple[str, tuple[str, ...]], ...] = ()  # further options by the server's name
    one_server_node: bool = False  # all servers on server-0, instead of each on a node of its own

    @property
    def lease_s(self) -> float:
        return self.lease_ttl_ms / 1000

    @property
    def has_etcd(self) -> bool:
        return self.schedulers > 0

    # These are asked ten times a second while a cluster runs.
    @functools.cached_property
    def control_nodes(self) -> list[str]:
        return [f"control-{number}" for number in range(max(1, self.schedulers))]

    @functools.cached_property
    def server_names(self) -> list[str]:
        """A server has its node's name, where it has a node of its own."""
        return [f"server-{number}" for number in range(self.servers)]

    @functools.cached_property
    def scheduler_names(self) -> list[str]:
        return [f"scheduler-{number}" for number in range(len(self.control_nodes))]

    @functools.cached_property
    def etcd_names(self) -> list[str]:
        return [f"etcd-{number}" for number in range(self.schedulers)]

    def etcd_on(self, control_node: str) -> str:
        return f"etcd-{control_node.rsplit('-', 1)[1]}"

    @functools.cached_property
    def worker_names(self) -> list[str]:
        return [f"worker-{number}" for number in range(self.worker_nodes)]

    @functools.cached_property
    def nodes(self) -> list[str]:
        return [*self.control_nodes, *self.server_nodes, *self.worker_names]

    @functools.cached_property
    def server_nodes(self) -> list[str]:
        return self.server_names[:1] if self.one_server_node else self.server_names

    @functools.cached_property
    def rank_names(self) -> list[str]:
        """Of jobs of fixed size."""
        return [job.rank_name(rank) for job in self.jobs for rank in job.ranks if not job.is_open]

    @functools.cached_property
    def open_rank_names(self) -> list[str]:
        return [job.rank_name(rank) for job in self.jobs for rank in job.ranks if job.is_open]

    @functools.cached_property
    def node_by_process(self) -> dict[str, str]:
        found = {name: self.server_nodes[0] if self.one_server_node else name for name in self.server_names}
        found |= {name: f"control-{name.rsplit('-', 1)[1]}" for name in [*self.scheduler_names, *self.etcd_names]}
        found |= {job.rank_name(rank): job.nodes[rank] for job in self.jobs for rank in job.ranks}
        return found

    def job(self, name: str) -> Job:
        [job] = [job for job in self.jobs if job.name == name]
        return job

    def node_of(self, process: str) -> str:
        return self.node_by_process[process]

    def options_of(self, server: str) -> list[str]:
        return [option for name, options in self.server_options if name == server for option in options]


JOB_A = Job("a", ("worker-0", "worker-0", "worker-1", "server-2"))
JOB_B = Job("b", ("worker-2", "server-0"), group_slots=3)
# Its groups have all ways to reduce: rails with all ranks, servers alone with three, and none at all with those of a
# node.
JOB_N = Job("n", ("worker-1", "worker-1", "server-0", "server-0"), group_slots=3, node_reduce="auto")
# Its ranks die, stand still and leave, and the others go on.
JOB_O = Job("o", ("worker-0", "worker-1", "worker-2", "server-1"), min_ranks=1)
JOB_C = Job("c", ("worker-3", "worker-1", "worker-2"), network_only=True, most_bytes=4 << 20, pause_ms=120)

# Three jobs for a quick look, four for the long run, each with an open one beside them; the third shape keeps its state
# in a file.
SHAPES = {
    "small": Shape(
        jobs=(dataclasses.replace(JOB_A, nodes=("worker-0", "worker-0", "server-2")), JOB_B, JOB_N, JOB_O),
        worker_nodes=3,
    ),
    "full": Shape(jobs=(JOB_A, JOB_B, JOB_C, JOB_N, JOB_O), worker_nodes=4),
    "file": Shape(jobs=(JOB_A, JOB_B, JOB_N, JOB_O), worker_nodes=3, schedulers=0),
}


def to_document(shape: Shape) -> dict:
    return dataclasses.asdict(shape)


def from_document(document: dict) -> Shape:
    """ValueError (or TypeError for an unknown field) if it describes none."""
    fields = dict(document)
    fields["jobs"] = tuple(job_from_document(job) for job in fields["jobs"])
    fields["server_options"] = tuple((name, tuple(options)) for name, options in fields.get("server_options", ()))
    shape = Shape(**fields)
    for job in shape.jobs:
        unknown = sorted(set(job.nodes) - set(shape.nodes))
        if unknown:
            raise ValueError(f"job {job.name} has ranks on {', '.join(unknown)}, which the shape lacks")
    return shape


def job_from_document(document: dict) -> Job:
    fields = dict(document)
    for name in ("nodes", "chunk_bytes"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return Job(**fields)
