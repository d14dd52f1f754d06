"""A job of shoal-perf in which one rank computes for longer than the others, so that they wait for it."""

from hosts.cluster import Cluster
from hosts.process import TIME_FACTOR, Process

RANKS = 4
SLOW = 2  # the rank's number
# Programs with a sanitizer need more of a core for each byte.
PAUSE_US = 20_000 * TIME_FACTOR
NAMED_WITHIN_S = 30 * TIME_FACTOR
SHORT_LEASE_MS = 3000  # heartbeats, and so the news, come every second


def pause(times: float = 1) -> list[str]:
    """Of shoal-perf before each op."""
    return ["--pause", str(round(times * PAUSE_US))]


def start_slow_job(cluster: Cluster, node_reduce: str = "off") -> list[Process]:
    """Ranks of the job "perf" that reduce until the test ends, over shared memory; through servers if `node_reduce` is
    "off"."""
    options = ["--node-reduce", node_reduce, "-n", "1000000", "-c", "0", "-b", "256K"]
    return [
        cluster.start_perf_rank(rank, RANKS, *options, *pause(3 if rank == SLOW else 1)) for rank in range(RANKS)
    ]
