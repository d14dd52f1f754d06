"""Runs of ranks of an open job (open_rank_program.py), for the tests of what happens to them."""

import pathlib
import re
import sys

from hosts.cluster import LIBRARY, Cluster, sanitizer_environment
from hosts.process import Process

PROGRAM = pathlib.Path(__file__).with_name("open_rank_program.py")

Ranks = dict[int, Process]


def start_open_rank(cluster: Cluster, *options: str) -> Process:
    command = [sys.executable, str(PROGRAM), "--library", str(LIBRARY), "--scheduler", cluster.scheduler_address]
    return cluster.start([*command, *options], sanitizer_environment())


def reduce(ranks: Ranks, name: str) -> set[str]:
    """Of all of them, in a group of that name: the digests."""
    for process in ranks.values():
        process.say(f"reduce {name} {','.join(map(str, sorted(ranks)))}")
    return {process.wait_for_line(rf"^{name} done (\w+)$").group(1) for process in ranks.values()}


def only_job(cluster: Cluster) -> dict:
    (document,) = cluster.shoalctl("jobs")
    (job,) = document["jobs"]
    return job


def ops_of(process: Process, name: str) -> list[re.Match[str]]:
    pattern = re.compile(rf"^{name} op (\d+) (\d+)-(\d+) (\S+) (\w+) [\d.]+$", re.MULTILINE)
    return list(pattern.finditer(process.output))


def go_on(ranks: Ranks, name: str, min_ranks: int, ops: int, scale: int) -> None:
    for process in ranks.values():
        process.say(f"go on {name} {','.join(map(str, sorted(ranks)))} {min_ranks} {ops} {scale}")
    for process in ranks.values():
        process.wait_for_line(f"^{name} open$")
