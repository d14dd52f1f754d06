#!/usr/bin/env python3
"""How soon a slow rank or server is named, and whether anybody is who is not slow. Needs root.

`build/venv/bin/python tests/stragglers/run.py --results`, after a build; an hour. Four ranks train: a step is ten
all-reduces of 1 MiB, before each of which a rank computes for 200 ms (it sleeps). Each rank and each server has a node
of its own, or all share memory; a server there is only ever waited for with larger tensors, of 64 MiB. The lease is
that of a scheduler that is told nothing. In each case one of them is slow from the beginning, or two are; the first
that is named has to be the right one, with the right cause. Then nobody is slow for ten minutes, and nobody may be
named. Results: tests/stragglers/results. Exit status 1 if anybody was named wrongly, after more than five steps, or not
within a minute.
"""

import argparse
import contextlib
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/process")]

from hosts.cluster import Cluster, linked_cluster
from hosts.page import page_text

RESULTS = pathlib.Path(__file__).parent / "results"
RANKS = 4
SERVERS = 4
RATE_MBIT = 200
OPS_OF_A_STEP = 10
COMPUTE_US = 200_000
LATE_US = 20_000
SLOW = 2  # the rank's number
LEASE_TTL_MS = 5000  # the default
PATIENCE_S = 60
MOST_STEPS = 5  # until the last of those who are slow is named
OPTIONS = ["-n", "1000000", "-c", "0", "-w", "0", "-b", "1M"]
# Of tensors of which every server has many chunks, in shared memory.
LARGE_PAUSE_US = 20_000
LARGE = ["-b", "64M", "--pause", str(LARGE_PAUSE_US)]
LARGE_OPS_OF_A_STEP = 30
TURN_S = 0.04  # of a server that runs for half of the time


class WrongName(Exception):
    """Somebody was named who is not slow, with a cause that is not so, or too late, or nobody was."""


@dataclasses.dataclass
class Named:
    """What the scheduler said, as "rank 2: slow-link" or "server alpha: slow-server", and when."""

    who: str
    seconds: float  # since the ranks could begin
    steps: float


@dataclasses.dataclass
class Case:
    name: str
    expected: set[str]
    start: Callable[[], contextlib.AbstractContextManager[Cluster]]
    ops_of_a_step: int = OPS_OF_A_STEP


def compute(more_us: int = 0) -> list[str]:
    return ["--pause", str(COMPUTE_US + more_us)]


def start_ranks(cluster: Cluster, more: dict[int, list[str]]) -> None:
    for rank, node in enumerate(cluster.network.workers):
        with cluster.on(node):
            own = ["--net-device", node.device, "--network-only", "--min-servers", str(SERVERS)]
            cluster.start_perf_rank(rank, RANKS, *OPTIONS, *own, *more.get(rank, compute()))


@contextlib.contextmanager
def over_tcp(
    more: dict[int, list[str]] | None = None,
    rates: dict[int, tuple[float, float]] | None = None,
    slow_server: bool = False,
) -> Iterator[Cluster]:
    """`more`: of ranks, options in place of the usual ones. `rates`: of ranks' links, up and down."""
    with linked_cluster(RANKS, SERVERS) as cluster:
        for number, node in enumerate(cluster.network.workers):
            cluster.network.shape_link(node, *(rates or {}).get(number, (RATE_MBIT, RATE_MBIT)))
        for number, node in enumerate(cluster.network.servers):
            cluster.network.shape_link(node, RATE_MBIT / 2 if slow_server and number == 0 else RATE_MBIT)
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        cluster.start_servers()
        start_ranks(cluster, more or {})
        yield cluster


@contextlib.contextmanager
def over_shared_memory(
    more: dict[int, list[str]] | None = None,
    usual: list[str] | None = None,
    slow_server: bool = False,
    server_count: int = SERVERS,
) -> Iterator[Cluster]:
    """`more`: of ranks, options in place of the usual ones. Without servers the ranks reduce within their node."""
    with Cluster() as cluster:
        cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
        servers = [cluster.start_server(f"server-{number}") for number in range(server_count)]
        for rank in range(RANKS):
            own = ["--node-reduce", "off", "--min-servers", str(server_count)] if servers else ["--node-reduce", "host"]
            cluster.start_perf_rank(rank, RANKS, *OPTIONS, *own, *(more or {}).get(rank, usual or compute()))
        with servers[0].stopped_in_turns(TURN_S) if slow_server else contextlib.nullcontext():
            yield cluster


def cases() -> list[Case]:
    late = {SLOW: compute(LATE_US)}
    half = {SLOW: (RATE_MBIT / 2, RATE_MBIT)}
    server = "server server-0: slow-server"
    two = {1: compute(2 * LATE_US)}
    return [
        Case("20 ms more compute", {"rank 2: late-compute"}, lambda: over_tcp(more=late)),
        Case("half a link's rate", {"rank 2: slow-link"}, lambda: over_tcp(rates=half)),
        Case(
            "a slow reader: half the rate of the way to the rank",
            {"rank 2: slow-reader"},
            lambda: over_tcp(rates={SLOW: (RATE_MBIT, RATE_MBIT / 2)}),
        ),
        Case("a server with half a link's rate", {server}, lambda: over_tcp(slow_server=True)),
        Case(
            "two at once: 40 ms more compute, and half a link's rate",
            {"rank 1: late-compute", "rank 2: slow-link"},
            lambda: over_tcp(more=two, rates=half),
        ),
        Case("20 ms more compute, shared memory", {"rank 2: late-compute"}, lambda: over_shared_memory(more=late)),
        Case(
            "20 ms more compute, one node without servers",
            {"rank 2: late-compute"},
            lambda: over_shared_memory(more=late, server_count=0),
        ),
        Case(
            "a server that runs for half of the time, shared memory, 64 MiB",
            {server},
            lambda: over_shared_memory(usual=LARGE, slow_server=True),
            LARGE_OPS_OF_A_STEP,
        ),
        Case(
            "two at once, shared memory: 20 and 40 ms more compute",
            {"rank 1: late-compute", "rank 2: late-compute"},
            lambda: over_shared_memory(more=late | two),
        ),
    ]


def named_now(cluster: Cluster) -> set[str]:
    (document,) = cluster.shoalctl("stragglers")
    named = set()
    for job in document["jobs"]:
        named |= {f"rank {slow['rank']}: {slow['cause']}" for slow in job["slow_ranks"]}
        named |= {f"server {slow['name']}: {slow['cause']}" for slow in job["slow_servers"]}
    return named


def in_flight(cluster: Cluster) -> str:
    """What a rank may have under way to a server, as servers say it: "2 x 32 KiB". "-" without servers."""
    said = re.search(r"(\d+) chunks of (\d+) bytes in flight each", str(cluster))
    return f"{said[1]} x {int(said[2]) // 1024} KiB" if said else "-"


def event_s(cluster: Cluster, kind: str, subject: str = "") -> float:
    """When the first one of that kind was, on the scheduler's clock."""
    return next(
        int(event["at_unix_ms"]) / 1000
        for event in cluster.events()
        if event["kind"] == kind and subject in event["subject"] + " "
    )


def steps_per_s(cluster: Cluster, ops_of_a_step: int) -> float:
    def rate() -> float:
        (document,) = cluster.shoalctl("jobs")
        (job,) = document["jobs"]
        return job.get("rates", {}).get("ops", 0.0)

    return cluster.wait_until(rate, "the rate of the ops is known") / RANKS / ops_of_a_step


def watch(cluster: Cluster, expected: set[str], ops_of_a_step: int) -> list[Named]:
    """Returns when all of them are named. WrongName: see there."""
    until = time.monotonic() + PATIENCE_S
    seen: set[str] = set()
    while seen != expected:
        if time.monotonic() > until:
            raise WrongName(f"within {PATIENCE_S} s {seen or 'nobody'} was named, not {expected}")
        time.sleep(0.2)
        seen |= named_now(cluster)
        if not seen <= expected:
            raise WrongName(f"{seen} was named, not {expected}")
    began_s = event_s(cluster, "group-opened")
    rate = steps_per_s(cluster, ops_of_a_step)
    found = []
    for who in sorted(expected):
        subject, _, _ = who.partition(":")
        kind = "rank-slow" if subject.startswith("rank") else "server-slow"
        seconds = event_s(cluster, kind, f"{subject} ") - began_s
        steps = seconds * rate
        if steps > MOST_STEPS:
            raise WrongName(f"{who} was named after {seconds:.1f} s, {steps:.1f} steps, not within {MOST_STEPS} steps")
        found.append(Named(who, round(seconds, 1), round(steps, 1)))
    return found


def clean(
    minutes: float, start: Callable[[], contextlib.AbstractContextManager[Cluster]], ops_of_a_step: int
) -> float:
    """How many steps there were. WrongName: somebody was named."""
    with start() as cluster:
        cluster.wait_until(lambda: any(event["kind"] == "group-opened" for event in cluster.events()), "ranks begin")
        time.sleep(60 * minutes)
        if told := [event for event in cluster.events() if event["kind"].endswith("-slow")]:
            raise WrongName(f"nobody is slow, and still: {told[0]['subject']}: {told[0]['reason']}")
        return steps_per_s(cluster, ops_of_a_step) * 60 * minutes


def spread_of(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values)}..{max(values)})"


def page_of(record: dict) -> str:
    measured = (
        f"`tests/stragglers/run.py --rounds {record['rounds']} --minutes {record['minutes']:g} --results` on"
        f" {record['machine']}, commit {record['tree']}. {RANKS} ranks, {SERVERS} servers; links of {RATE_MBIT} Mbit/s;"
        f" a lease of {LEASE_TTL_MS // 1000} s. In each round the right one was named within {MOST_STEPS} steps, with"
        " the right cause, and nobody else. Times are from the moment when the ranks can begin until the scheduler's"
        " event; of several rounds the median, and the range."
    )
    a_step = (
        f"A step here is {OPS_OF_A_STEP} ops with computation between them: all-reduces of 1 MiB, before each of which"
        f" a rank computes for {COMPUTE_US // 1000} ms; where tensors have 64 MiB, {LARGE_OPS_OF_A_STEP} ops with 20 ms"
        f" between them. The seconds follow from the lease, unless ten ops take longer,"
        " and not from how long a step is: with shorter steps there are more of them until somebody is named. In flight"
        " is what a rank may have under way to each server; where nothing else is said it is what was planned."
    )
    lines = [
        f"# How soon a slow rank or server is named ({record['date']})",
        "",
        measured,
        "",
        a_step,
        "",
        "| what is slow, from the beginning | in flight | named | seconds | steps |",
        "|---|---|---|---:|---:|",
    ]
    for case in record["cases"]:
        for who, times in case["named"].items():
            seconds, steps = (spread_of(times[key]) for key in ("seconds", "steps"))
            lines.append(f"| {case['name']} | {case['in_flight']} | {who} | {seconds} | {steps} |")
    lines += ["", "Where nobody is slow nobody was named:", ""]
    for way, steps in record["clean_steps"].items():
        lines.append(f"- {way}: {steps:.0f} steps in {record['minutes']:g} minutes")
    return page_text(lines) + "\n"


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each case")
    parser.add_argument("--minutes", type=float, default=10.0, help="in which nobody is slow, each way")
    parser.add_argument("--only", default="", help="the cases that have this in their names")
    parser.add_argument("--results", action="store_true", help=f"write the page to {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    changes = " with changes" if git("status", "--porcelain", "-uno") else ""
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
        "tree": git("rev-parse", "--short=12", "HEAD") + changes,
        "rounds": options.rounds,
        "minutes": options.minutes,
        "cases": [],
        "clean_steps": {},
    }
    what = ""
    try:
        for case in [case for case in cases() if options.only in case.name]:
            what = case.name
            named: dict[str, dict[str, list[float]]] = {}
            flow = ""
            for _ in range(options.rounds):
                with case.start() as cluster:
                    for found in watch(cluster, case.expected, case.ops_of_a_step):
                        print(f"{case.name}: {found.who} after {found.seconds} s, {found.steps} steps", flush=True)
                        times = named.setdefault(found.who, {"seconds": [], "steps": []})
                        times["seconds"].append(found.seconds)
                        times["steps"].append(found.steps)
                    flow = in_flight(cluster)
            record["cases"].append({"name": case.name, "in_flight": flow, "named": named})
        if options.minutes > 0:
            large = functools.partial(over_shared_memory, usual=LARGE)
            alone = functools.partial(over_shared_memory, server_count=0)
            ways = {
                "over TCP": (over_tcp, OPS_OF_A_STEP),
                "over shared memory": (over_shared_memory, OPS_OF_A_STEP),
                "over shared memory, 64 MiB": (large, LARGE_OPS_OF_A_STEP),
                "on one node without servers": (alone, OPS_OF_A_STEP),
            }
            for way, (start, ops_of_a_step) in ways.items():
                what = way
                record["clean_steps"][way] = clean(options.minutes, start, ops_of_a_step)
                print(f"nobody is slow {way}: nobody was named", flush=True)
    except WrongName as error:
        sys.exit(f"FAILED: {what}: {error}")
    if options.results:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"stragglers_{record['date']}.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / f"stragglers_{record['date']}.md").write_text(page_of(record))
    print(page_of(record))


if __name__ == "__main__":
    main()
