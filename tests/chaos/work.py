"""What the ranks of a job do, as a function of the seed: groups, ops, tensors. All ranks compute it alike."""

import dataclasses
import random

from chaos.numerics import DTYPES, OPS, QUIET_NAN
from chaos.shape import Job

WIRES = ("none", "none", "none", "bf16", "fp16")
FLOAT32 = 1


@dataclasses.dataclass(frozen=True)
class Op:
    dtype: int
    op: int
    factor: float
    count: int
    offsets: tuple[int, ...]  # where each rank's contribution begins in its pool of numbers


@dataclasses.dataclass(frozen=True)
class Generation:
    """One life of a group."""

    name: str
    members: tuple[int, ...]
    chunk_bytes: int
    wire: str
    ops: tuple[Op, ...]
    # Of a group of an open job: with how many ranks it goes on, whether its sums are scaled to all of them, and whether
    # all chunks of an op have the same contributors.
    min_ranks: int = 0
    scale_sums: bool = False
    whole_op: bool = False


def members_of(job: Job, seed: int, slot: int) -> tuple[int, ...]:
    """The first slot's groups have all ranks. A slot's members stay the same, so nobody runs ahead of the others. In an
    open job its watcher says who is in a group."""
    if slot == 0 or job.is_open:
        return tuple(job.ranks)
    source = random.Random(f"members {seed} {job.name} {slot}")
    return tuple(sorted(source.sample(list(job.ranks), source.randint(min(2, len(job.nodes)), len(job.nodes)))))


def generation_of(job: Job, seed: int, slot: int, number: int) -> Generation:
    source = random.Random(f"work {seed} {job.name} {slot} {number}")
    members = members_of(job, seed, slot)
    wire = "none" if job.plain else source.choice(WIRES)
    chunk_bytes = source.choice(job.chunk_bytes)
    ops = tuple(draw_op(job, source, len(members)) for _ in range(source.randint(job.least_ops, job.most_ops)))
    return Generation(f"{slot}.{number}", members, chunk_bytes, wire, ops)


def open_generation(job: Job, seed: int, name: str, members: tuple[int, ...]) -> Generation:
    """Of an open job: of whoever is there now."""
    source = random.Random(f"open work {seed} {job.name} {name}")
    ops = tuple(draw_op(job, source, len(members)) for _ in range(source.randint(job.least_ops, job.most_ops)))
    min_ranks = min(source.choice((1, 1, 1, 2)), len(members))
    wire, chunk_bytes = source.choice(WIRES), source.choice(job.chunk_bytes)
    scale_sums, whole_op = source.random() < 0.5, source.random() < 0.25
    return Generation(name, members, chunk_bytes, wire, ops, min_ranks, scale_sums, whole_op)


def node_layout(job: Job, members: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The places of the ranks by node, if they reduce within several nodes first; empty: servers, or one node with the
    same bits, sum them in order."""
    places: dict[str, list[int]] = {}
    for place, rank in enumerate(members):
        places.setdefault(job.nodes[rank], []).append(place)
    counts = {len(of_node) for of_node in places.values()}
    has_rails = len(places) > 1 and len(counts) == 1 and counts != {1}
    if job.node_reduce == "off" or job.network_only or not has_rails:
        return ()
    return tuple(tuple(of_node) for of_node in places.values())


def draw_op(job: Job, source: random.Random, ranks: int) -> Op:
    dtype = FLOAT32 if job.plain else source.choice([FLOAT32, *DTYPES])
    size = int(job.least_bytes * (job.most_bytes / job.least_bytes) ** source.random())
    itemsize = DTYPES[dtype][1]().itemsize
    ops = [number for name, number in OPS.items() if name != "premul-sum" or DTYPES[dtype][0] in QUIET_NAN]
    op = OPS["sum"] if job.plain else source.choice(ops)
    offsets = tuple(source.randrange(1 << 16) for _ in range(ranks))
    return Op(dtype, op, source.choice((0.5, -1.25, 3.0)), max(1, size // itemsize), offsets)
