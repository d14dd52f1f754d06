"""Runs build/bin/fabric_model, and what a perfect all-reduce of each layout needs."""

import dataclasses
import json
import pathlib
import subprocess

from hosts.node import HostError

TIMEOUT_S = 1800
# As core/flow_plan.cc: a message may cost at most a quarter of its time on the link, and no chunk is larger.
MESSAGE_COST_SHARE = 4
LARGEST_CHUNK_BYTES = 512 << 10
SMALLEST_CHUNK_BYTES = 1 << 10
CREDIT_CHUNKS = 4
# Of a ring and a tree, in which every worker sends to others; with more a simulation takes an hour.
MOST_PEERS = 256


@dataclasses.dataclass(frozen=True)
class Fabric:
    """Every worker and every server has one link of this kind."""

    name: str
    link_bytes_per_s: float
    latency_s: float
    message_cost_s: float
    most_workers: int  # to simulate on it

    def worthwhile_chunk_bytes(self) -> float:
        return MESSAGE_COST_SHARE * self.message_cost_s * self.link_bytes_per_s


@dataclasses.dataclass(frozen=True)
class Layout:
    name: str
    flags: tuple[str, ...]
    bound: float  # in units of M/link
    trains: tuple[int, int] = (32, 64)  # buckets: the time of one more is the difference by their difference
    in_flight: int = 32
    most_workers: int = 1024  # to simulate it with


def ring_bound(workers: int) -> float:
    return 2 * (workers - 1) / workers


def colocated_bound(workers: int, servers: int) -> float:
    return 2 * workers * (workers - 1) / (workers**2 + servers * (workers - 2))


def dedicated_share(workers: int, servers: int) -> float:
    """Of a bucket, on dedicated servers, in the best proportion."""
    return servers * 2 * (workers - 1) / (workers**2 + servers * (workers - 2))


def chunk_flags(size_bytes: float, credit: int = CREDIT_CHUNKS) -> tuple[str, ...]:
    size = int(min(max(size_bytes, SMALLEST_CHUNK_BYTES), LARGEST_CHUNK_BYTES))
    return ("--chunk-bytes", str(size), "--credit", str(credit))


def layouts(workers: int, bucket_bytes: int, fabric: Fabric) -> list[Layout]:
    """Of workers in lockstep, which the model takes for one."""
    half = workers // 2
    each_server = bucket_bytes / workers
    capped = chunk_flags(max(each_server, fabric.worthwhile_chunk_bytes()))
    one = ("--groups", "1")
    segment = int(min(max(fabric.worthwhile_chunk_bytes(), 64 << 10), LARGEST_CHUNK_BYTES))
    look_ahead = str(CREDIT_CHUNKS * (workers + half))
    return [
        Layout(
            "ring", ("--layout", "ring", "--groups", str(min(workers, 8))), ring_bound(workers), (4, 8), 4, MOST_PEERS
        ),
        Layout("double tree", ("--layout", "tree", "--segment", str(segment)), 2.0, (2, 4), 2, MOST_PEERS),
        Layout("colocated, capped", (*one, *capped), ring_bound(workers)),
        Layout(
            "dedicated and colocated, k = n/2, capped",
            (*one, *capped, "--dedicated", str(half), "--dedicated-share", str(dedicated_share(workers, half)))
            + ("--window", look_ahead),
            colocated_bound(workers, half),
        ),
        Layout("dedicated, k = n, capped", (*one, *capped, "--dedicated", str(workers)), 1.0, (64, 128)),
        Layout(
            "dedicated, every bucket on every server",
            (*one, *chunk_flags(each_server), "--dedicated", str(workers)),
            1.0,
        ),
        Layout("dedicated, as planned today", (*one, "--chunk-bytes", "0", "--dedicated", str(workers)), 1.0),
    ]


def simulate(
    program: pathlib.Path, fabric: Fabric, workers: int, bucket_bytes: int, buckets: int, in_flight: int, flags
) -> float:
    """Seconds. HostError if the program fails or takes too long."""
    command = [str(program), "--nodes", str(workers), "--bucket", str(bucket_bytes), "--buckets", str(buckets)]
    command += ["--in-flight", str(in_flight), "--link", repr(fabric.link_bytes_per_s)]
    command += ["--latency", repr(fabric.latency_s), "--message-cost", repr(fabric.message_cost_s), *flags]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise HostError(f"{' '.join(command)} was not done after {TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise HostError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)["seconds"]


def scale_row(program: pathlib.Path, fabric: Fabric, workers: int, bucket_bytes: int, layout: Layout) -> dict:
    """Times in units of M/link: a bucket alone, one of a train, and one more of it."""
    unit_s = bucket_bytes / fabric.link_bytes_per_s

    def time_of(buckets: int) -> float:
        in_flight = min(buckets, layout.in_flight)
        return simulate(program, fabric, workers, bucket_bytes, buckets, in_flight, layout.flags) / unit_s

    short, long = layout.trains
    alone, short_train, long_train = time_of(1), time_of(short), time_of(long)
    return {
        "fabric": fabric.name,
        "workers": workers,
        "layout": layout.name,
        "flags": list(layout.flags),
        "bound": layout.bound,
        "alone": alone,
        "train": long_train / long,
        "train_buckets": long,
        "one_more": (long_train - short_train) / (long - short),
    }
