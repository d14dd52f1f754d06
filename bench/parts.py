"""What is measured: parts of one or more scenarios. A scenario is one rig, its contenders and their cases."""

import dataclasses

from contenders.case import LAYERS, Case
from hosts.network import LinkShape

KIB = 1 << 10
MIB = 1 << 20
OPEN_MPI = ("openmpi", "openmpi-ring", "openmpi-rabenseifner")


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    workers: int
    servers: int
    cases: tuple[Case, ...]
    contenders: tuple[str, ...]  # the first is compared with each other one
    worker_link: LinkShape | None = None  # None: all on one node, over its loopback device and its memory
    server_link: LinkShape | None = None  # None: as the workers'
    ranks_per_node: int = 1  # of the workers, where links lead to them: each node has one link
    node_links: int = 1  # of a node of workers, to a network each; servers are in those networks by turns

    @property
    def worker_nodes(self) -> int:
        return self.workers // self.ranks_per_node

    @property
    def worker_links(self) -> int:
        return self.worker_nodes * self.node_links

    def kappa(self) -> float:
        """The servers' links in units of a link of a worker's node."""
        if self.worker_link is None:
            return 0.0
        server_rate = (self.server_link or self.worker_link).rate_mbit
        return self.servers * server_rate / self.worker_link.rate_mbit


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    title: str
    scenarios: tuple[Scenario, ...]
    note: str


def several_ranks(
    nodes: int, ranks_per_node: int, servers: int, rate_mbit: float, cases, contenders, node_links: int = 1
) -> Scenario:
    name = f"{nodes} nodes with {ranks_per_node} ranks each, k={servers}, {rate_mbit:g} Mbit/s"
    if node_links > 1:
        name += f", {node_links} links a node"
    return Scenario(
        name,
        nodes * ranks_per_node,
        servers,
        tuple(cases),
        tuple(contenders),
        LinkShape(rate_mbit),
        ranks_per_node=ranks_per_node,
        node_links=node_links,
    )


def linked(
    workers: int,
    servers: int,
    rate_mbit: float,
    cases,
    contenders,
    port_buffer_kib: int = LinkShape.port_buffer_kib,
    burst_kib: int = LinkShape.burst_kib,
) -> Scenario:
    name = f"n={workers}, k={servers}, {rate_mbit:g} Mbit/s"
    if port_buffer_kib != LinkShape.port_buffer_kib:
        name += f", port buffers of {port_buffer_kib} KiB"
    if burst_kib != LinkShape.burst_kib:
        name += f", bursts of {burst_kib} KiB"
    link = LinkShape(rate_mbit, port_buffer_kib, burst_kib)
    return Scenario(name, workers, servers, tuple(cases), tuple(contenders), link)


def training(workers: int, rate_mbit: float) -> tuple[Case, ...]:
    """Steps whose exchange by a ring takes half as long as they compute, as long, twice and four times."""
    size_bytes = 25 * MIB
    payload_of_wire = 0.95
    ring_s = 2 * (workers - 1) / workers * size_bytes / (rate_mbit * 1e6 / 8 * payload_of_wire)
    of_both_passes = 1.5  # the forward pass takes half as long as the backward pass
    return tuple(
        Case(size_bytes, 3, 1, backward_s=round(ring_s / times / of_both_passes, 3)) for times in (0.5, 1, 2, 4)
    )


# Every contender's round: (iterations, warm-ups) by size, so that five rounds give 40, 20 and 10 times.
LARGE = (Case(4 * MIB, 8, 2), Case(25 * MIB, 4, 1), Case(100 * MIB, 2, 1))
BUCKET = (Case(25 * MIB, 4, 1),)
BUCKET_ON_ONE_NODE = (Case(25 * MIB, 8, 3),)
SMALL = tuple(Case(size, 200, 50) for size in (4, 256, 4 * KIB, 64 * KIB))
# So many that ranks of all contenders run where the kernel would have them run for good (README.md, small ops).
SMALL_FOR_LONG = Case(4 * KIB, 2000, 200)

PARTS = (
    Part(
        "links",
        "Large tensors on equal links",
        (
            linked(4, 4, 400, LARGE, ("shoal", "gloo", *OPEN_MPI)),
            linked(8, 8, 200, LARGE, ("shoal", "gloo", *OPEN_MPI)),
            # At half of that rate as well: 200 Mbit/s may leave two processors no idle time.
            *(linked(8, 8, rate_mbit, BUCKET, ("shoal", "gloo"), port_buffer_kib=128) for rate_mbit in (200, 100)),
            linked(2, 2, 800, LARGE, ("shoal", "gloo", "openmpi")),
            # As a cable is, which saves nothing up while it is idle. That costs so much CPU time that it must be slow.
            linked(4, 4, 40, BUCKET, ("shoal", "gloo"), burst_kib=4),
        ),
        "With two workers a ring moves as many bytes as a server layout: there the ratio can't be above 1.",
    ),
    Part(
        "colocated",
        "Fewer servers than workers",
        (
            linked(8, 0, 200, (Case(8 * MIB, 4, 1),), ("shoal-colocated", "gloo")),
            *(linked(8, k, 200, (Case(8 * MIB, 4, 1),), ("shoal-colocated", "shoal", "gloo")) for k in (1, 2, 4, 6, 8)),
        ),
        "With dedicated servers alone, fewer servers than half the workers are slower than a ring. With servers in the"
        " workers' processes too, shares follow the links (docs/adr/0010-hybrid-shards.md).",
    ),
    Part(
        "in-flight",
        "Many buckets in flight",
        (linked(8, 8, 200, (Case(MIB, 64, 8, in_flight=8),), ("shoal", "gloo")),),
        "64 all-reduces of 1 MiB, 8 at a time; the time is that of the whole loop divided by 64.",
    ),
    Part(
        "incast",
        "Eight workers into one server",
        tuple(linked(8, 1, 200, (Case(4 * MIB, 4, 1),), ("shoal",), buffer) for buffer in (128, 256)),
        "The server's one link carries everything: the bound is n times the tensor. A TCP timeout costs 200 ms.",
    ),
    Part(
        "cpu",
        "CPU time of the workers",
        # 200 Mbit/s may leave two processors no idle time. Chunks are as large as what ports hold lets them be.
        (
            linked(8, 8, 200, BUCKET, ("shoal", "gloo")),
            linked(8, 8, 100, BUCKET, ("shoal", "gloo")),
            *(linked(8, 8, 100, BUCKET, ("shoal", "gloo"), port_buffer_kib=kib) for kib in (1024, 4096)),
            linked(8, 1, 100, (Case(4 * MIB, 3, 1),), ("shoal", "gloo")),
            several_ranks(2, 4, 2, 100, BUCKET, ("shoal-node", "gloo")),
        ),
        "User and system time of the workers' processes for each GB of the tensor that one of them reduced.",
    ),
    Part(
        "shapes",
        "Other links, and other numbers of ranks and servers",
        (
            # Cables save little up, and that costs so much CPU time that they must be slow.
            *(linked(8, 8, 40, (Case(8 * MIB, 3, 1),), ("shoal", "gloo"), burst_kib=kib) for kib in (16, 4)),
            *(
                linked(ranks, servers, 100, (Case(8 * MIB, 3, 1),), ("shoal", "gloo"))
                for ranks, servers in ((8, 2), (8, 4), (4, 8))
            ),
            linked(16, 16, 50, (Case(8 * MIB, 3, 1),), ("shoal", "gloo")),
        ),
        "Where bursts are small, and where there are fewer servers than ranks, or more.",
    ),
    Part(
        "wire",
        "16 bits on the wire",
        (linked(8, 8, 200, BUCKET, ("shoal-bf16", "shoal", "gloo")),),
        "The bound is that of fp32: a fraction above 1 is the compression's.",
    ),
    Part(
        "one-host",
        "One node",
        (
            Scenario(
                "n=4, k=2, one node",
                4,
                2,
                (*SMALL, Case(MIB, 40, 10), Case(25 * MIB, 8, 3)),
                ("shoal-shm", "shoal-tcp", "gloo", "openmpi-shm", "openmpi-tcp"),
            ),
        ),
        "All processes share the processors. Over TCP a server layout moves 8/6 of a ring's bytes through the node.",
    ),
    Part(
        "torch",
        "One node, in torch and in C",
        tuple(
            Scenario(
                f"n={ranks}, k={servers}, one node",
                ranks,
                servers,
                (SMALL_FOR_LONG, Case(MIB, 40, 10), Case(25 * MIB, 8, 3)),
                ("shoal-torch-shm", "shoal-shm", "gloo", "openmpi-shm"),
            )
            for ranks, servers in ((2, 1), (4, 1), (4, 2))
        ),
        "What torch adds: the same all-reduce, through the same kind of servers, called by `dist.all_reduce` and by a"
        " program in C, beside what torch and C have.",
    ),
    Part(
        "within-node",
        "One node, no server",
        (
            Scenario(
                "n=4, one node",
                4,
                2,
                (*SMALL, Case(MIB, 40, 10), Case(25 * MIB, 8, 3)),
                ("shoal-node", "gloo", "openmpi-shm", "shoal-shm"),
            ),
        ),
        "The ranks reduce among themselves, through their node's memory. The servers are there for the last contender.",
    ),
    Part(
        "nodes",
        "Several ranks on each node",
        (
            *(
                several_ranks(nodes, ranks, servers, 200, BUCKET, ("shoal-node", "shoal", "gloo"))
                for nodes, ranks, servers in ((2, 4, 2), (4, 2, 4), (2, 8, 2))
            ),
            # At half of that rate as well: 200 Mbit/s may leave two processors no idle time.
            *(
                scenario
                for rate_mbit in (200, 100)
                for scenario in (
                    several_ranks(4, 4, 2, rate_mbit, BUCKET, ("shoal-node-colocated", "shoal-node", "gloo")),
                    several_ranks(2, 4, 4, rate_mbit, BUCKET, ("shoal-node", "gloo"), node_links=2),
                )
            ),
        ),
        "The ranks of a node share its link. Where they reduce among themselves first, the tensor crosses it once each"
        " way, and not once for each rank. With fewer servers than nodes, each node has a colocated server as well."
        " Two links of a node lead to two networks with half of the servers in each. Gloo is given both devices, and"
        " uses one of them for each all-reduce, the other one for the next; the ring's bound is that of both.",
    ),
    Part(
        "replicas",
        "A group for each local rank",
        (
            several_ranks(2, 8, 2, 200, (Case(3 * MIB, 4, 1),), ("shoal-replicas", "gloo-replicas")),
            several_ranks(4, 4, 4, 200, (Case(6 * MIB, 4, 1),), ("shoal-replicas", "gloo-replicas")),
        ),
        "As with hybrid sharding (HSDP), or tensor parallelism within nodes: the ranks with the same index on their"
        " nodes reduce together, in a group of their own, and all groups do so at the same time. Nothing can be reduced"
        " within a node then: its link carries the tensor of each of its ranks.",
    ),
    Part(
        "checksums",
        "What checksums cost",
        tuple(
            Scenario(
                f"n=4, k=2 by {way}, one node", 4, 2, BUCKET_ON_ONE_NODE, (f"shoal-{name}-checked", f"shoal-{name}")
            )
            for name, way in (("shm", "shared memory"), ("tcp", "TCP"))
        ),
        "A CRC32C for each chunk, both ways, computed by its sender and checked by its receiver. On one node all of it"
        " is on the path; behind a slower link it is hidden.",
    ),
    Part(
        "zero-set-up",
        "One node, in torch, nothing set up",
        (
            Scenario(
                "n=4, one node",
                4,
                0,
                BUCKET_ON_ONE_NODE,
                ("shoal-ddp", "gloo-ddp", "ddp-alone", "shoal-torch", "gloo"),
            ),
        ),
        'What `init_process_group("shoal")` gives by itself: the ranks reduce among themselves, through their node\'s'
        " memory. Of DistributedDataParallel, the backward pass of a model with a few buckets; its time without an"
        " exchange is torch's own part of it. The other two contenders call `dist.all_reduce` on as many bytes.",
    ),
    Part(
        "training",
        "Training steps with DistributedDataParallel",
        (
            linked(8, 8, 200, training(8, 200), ("shoal-step", "gloo-step")),
            several_ranks(2, 4, 2, 200, training(8, 200), ("shoal-step", "gloo-step")),
        ),
        f"A model of {LAYERS} layers with 1 MiB each, a bucket each, whose forward and backward passes sleep: the"
        " exchange of the last layers' gradients goes on while the first layers' are computed. Both passes"
        " together take twice as long as a ring needs to exchange all gradients, as long, half and a quarter of that;"
        " the forward pass takes a third of it. A time is that of a step; its bound is that of the exchange with what"
        " can't overlap with it.",
    ),
    Part(
        "neighbours",
        "A small job beside a large one",
        (
            Scenario(
                "a server's thread alone, small job, one node",
                2,
                1,
                (Case(4 * KIB, 500, 50),),
                ("shoal-thread-beside", "shoal-thread-alone"),
            ),
            Scenario(
                "a server's thread alone, large job, one node",
                8,
                1,
                (Case(64 * MIB, 12, 1),),
                ("shoal-thread-large", "shoal-thread-shared"),
            ),
        ),
        "All-reduces of 4 KiB between 2 ranks, while 8 ranks of another job reduce 64 MiB through the same I/O thread,"
        " or with nothing else to do. The ranks of one machine cannot keep a server busy; so this is its thread alone,"
        " with contributions that arrive without end and at no cost: a small all-reduce takes as long as it stays in"
        " the server, and the large job's all-reduces follow each other.",
    ),
    Part(
        "encrypted",
        "Encrypted",
        (
            Scenario("n=4, k=2, one node", 4, 2, BUCKET_ON_ONE_NODE, ("shoal-tcp", "shoal-encrypted")),
            linked(8, 8, 100, BUCKET, ("shoal", "shoal-encrypted")),
        ),
        "What ranks and servers send each other is encrypted or not. On one node the processors are the limit, and"
        " every byte is encrypted and decrypted on them.",
    ),
)


def ring_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float:
    """A ring of all ranks on the workers' links alone, which enters and leaves each node once."""
    n = scenario.workers
    return 2 * (n - 1) / n * case.size_bytes / link_bytes_per_s / scenario.node_links


def replica_rings_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float:
    """A ring for each index of a node's ranks, all at the same time on the nodes' links."""
    n = scenario.worker_nodes
    of_one_s = 2 * (n - 1) / n * case.size_bytes / link_bytes_per_s / scenario.node_links
    return scenario.ranks_per_node * of_one_s


def equal_total_ring_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float:
    """The ring, if the servers' links were given to the workers' nodes: (links + kappa) / links of the rate."""
    links = scenario.worker_links
    return ring_bound_s(scenario, case, link_bytes_per_s) * links / (links + scenario.kappa())


def dedicated_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float | None:
    """Servers own all shards: each node's link carries the tensor each way once for each of its ranks, the servers'
    carry it once for each rank.

    None without servers."""
    if scenario.servers == 0:
        return None
    of_node_link = scenario.ranks_per_node / scenario.node_links
    return case.size_bytes / link_bytes_per_s * max(of_node_link, scenario.workers / scenario.kappa())


def rails_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float | None:
    """The same where a node's ranks reduce among themselves first: a node takes part as one.

    None without servers."""
    bound_s = dedicated_bound_s(scenario, case, link_bytes_per_s)
    return None if bound_s is None else bound_s / scenario.ranks_per_node


def colocated_bound_s(scenario: Scenario, case: Case, link_bytes_per_s: float) -> float:
    """Shards in servers and workers' nodes at once, in the best proportion. Several ranks of a node reduce among
    themselves first."""
    nodes = scenario.worker_nodes
    node_bytes_per_s = link_bytes_per_s * scenario.node_links
    kappa = min(scenario.kappa() / scenario.node_links, nodes)
    return 2 * nodes * (nodes - 1) / (nodes**2 + kappa * (nodes - 2)) * case.size_bytes / node_bytes_per_s
