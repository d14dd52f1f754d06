#!/usr/bin/env python3
"""Strangers come to every port of a cluster while a job reduces: do its steps, its bits or the memory show it?

`bench/strangers/run.py` after a build; needs root, for nodes in network namespaces; some four minutes. Four ranks and
two servers on links of 100 Mbit/s reduce 25 MiB again and again, in turns alone and while 10000 strangers come from a
fifth node: some say nothing and stay, others send what is no message of ours, or leave at once. Writes
bench/results/strangers_DATE.json and .md. Exit status 1 if a sum was wrong or another one, if a step took more than
1.2 times as long, or if a server or the scheduler grew by more than 16 MiB.
"""

import argparse
import datetime
import json
import pathlib
import re
import resource
import socket
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/process"), str(ROOT / "bench")]

from garbage import GARBAGE
from hosts.cluster import Cluster
from hosts.network import LinkShape, make_linked_nodes
from hosts.process import Process
from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
RANKS, SERVERS, LINK_MBIT = 4, 2, 100
SIZE_MIB, OPS = 25, 12
MOST_SLOWDOWN = 1.2
MOST_GROWTH_BYTES = 16 << 20
STAYS_S = 1.0  # a stranger that neither side has sent away
OPEN_AT_A_TIME = 4000


def be_strangers(addresses: list[str], count: int, within_s: float) -> None:
    """So many connections, evenly over the time, each to the next of the addresses with the next of GARBAGE."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * OPEN_AT_A_TIME, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    staying: list[tuple[float, socket.socket]] = []
    begin = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begin + number * within_s / count - time.monotonic()))
        while staying and (staying[0][0] < time.monotonic() or len(staying) >= OPEN_AT_A_TIME):
            staying.pop(0)[1].close()
        host, port = addresses[number % len(addresses)].rsplit(":", 1)
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex((host, int(port)))
        staying.append((time.monotonic() + STAYS_S, stranger))
        # What came at least a moment ago is connected by now, unless it was sent away.
        if number >= 10:
            try:
                staying[-10][1].send(GARBAGE[number % len(GARBAGE)])
            except (OSError, IndexError):
                pass
    print("all came", flush=True)


def reduce(cluster: Cluster, job: str, strangers: int, addresses: list[str]) -> dict:
    """The report of rank 0 of a job, with strangers or, with none, without."""
    *ranks_of, stranger_of = cluster.network.workers
    flood = None
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        options = ["--job", job, "-b", f"{SIZE_MIB}M", "-n", str(OPS), "-w", "1", "-c", "1", "--json", str(report)]
        ranks = cluster.start_perf_ranks_on(ranks_of, *options)
        if strangers:
            command = [sys.executable, __file__, "--come-to", ",".join(addresses), "--strangers", str(strangers)]
            with cluster.on(stranger_of):
                flood = cluster.start(command)
        for rank in ranks:
            assert rank.wait(300) == 0, str(rank)
        if flood is not None:
            flood.wait_for_line("^all came$", 120)
        return json.loads(report.read_text(encoding="utf-8"))


def measure(strangers: int, rounds: int) -> dict:
    shape = LinkShape(LINK_MBIT)
    with make_linked_nodes([shape] * RANKS + [None], [shape] * SERVERS) as network, Cluster(network) as cluster:
        watched: dict[str, Process] = {"scheduler": cluster.start_scheduler()}
        for node in cluster.network.servers:
            watched[node.name] = cluster.start_server_on(node)
        addresses = [cluster.scheduler_address]
        addresses += [address for server in cluster.servers().values() for address in server["addresses"]]
        reduce(cluster, "warm-up", 0, addresses)
        found: dict = {"alone": [], "with strangers": [], "resident_bytes": {}}
        before = {name: process.resident_bytes() for name, process in watched.items()}
        for number in range(rounds):
            for kind, count in (("alone", 0), ("with strangers", strangers)):
                found[kind].append(reduce(cluster, f"job-{number}-{count}", count, addresses))
                print(f"{kind}: {step_ms(found[kind][-1]):.0f} ms", flush=True)
        for name, process in watched.items():
            found["resident_bytes"][name] = [before[name], process.resident_bytes()]
        found["turned_away"] = sum(turned_away(watched[node.name]) for node in network.servers)
        return found


def turned_away(server: Process) -> int:
    """Connections that the server says it has closed. Those that went before their first word are none."""
    said = re.findall(r"strangers-turned-away: (\d+) connections so far", server.output)
    return int(said[-1]) if said else 0


def step_ms(report: dict) -> float:
    return report["results"][0]["time_us_p50"] / 1000


def median_ms(reports: list[dict]) -> float:
    return statistics.median(map(step_ms, reports))


def slowdown(found: dict) -> float:
    return median_ms(found["with strangers"]) / median_ms(found["alone"])


def shown(found: dict) -> list[str]:
    """What the strangers changed."""
    reports = found["alone"] + found["with strangers"]
    wrong = []
    if any(report["wrong"] for report in reports) or len({each["results"][0]["digest"] for each in reports}) > 1:
        wrong.append("sums were wrong, or not the same")
    if found["turned_away"] == 0:
        wrong.append("no server has seen a stranger")
    if slowdown(found) > MOST_SLOWDOWN:
        wrong.append(f"a step takes {slowdown(found):.2f} times as long")
    for name, (before, after) in found["resident_bytes"].items():
        if after - before > MOST_GROWTH_BYTES:
            wrong.append(f"{name} has grown by {(after - before) / 2**20:.1f} MiB")
    return wrong


def page_of(report: dict) -> str:
    found = report["found"]
    changed = "; ".join(report["shown"]) or "All sums were right and the same"
    memory = [
        f"| {name} | {before / 2**20:.1f} | {after / 2**20:.1f} |"
        for name, (before, after) in found["resident_bytes"].items()
    ]
    times = [
        f"| {kind} | {median_ms(found[kind]):.0f} | {', '.join(f'{step_ms(each):.0f}' for each in found[kind])} |"
        for kind in ("alone", "with strangers")
    ]
    return "\n".join(
        [
            "# A job beside strangers",
            "",
            measured_by(report),
            "",
            f"{RANKS} ranks and {SERVERS} servers on links of {LINK_MBIT} Mbit/s reduce {SIZE_MIB} MiB, {OPS} times in"
            f" each run. In every other run {report['strangers']} strangers come meanwhile to the ports of the servers"
            f" and the scheduler; the servers closed {found['turned_away']} connections. {changed}. A step takes"
            f" {slowdown(found):.3f} times as long with them.",
            "",
            "| | median of a step (ms) | of each run |",
            "|---|---:|---|",
            *times,
            "",
            "| resident memory of | before (MiB) | after all runs (MiB) |",
            "|---|---:|---:|",
            *memory,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--strangers", type=int, default=10_000, help="of each run that has any (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, in turns (default %(default)s)")
    parser.add_argument("--come-to", help=argparse.SUPPRESS)
    parser.add_argument("--within", type=float, default=20.0, help="seconds in which they come (default %(default)s)")
    options = parser.parse_args()
    if options.come_to:
        be_strangers(options.come_to.split(","), options.strangers, options.within)
        return 0
    started = datetime.datetime.now(datetime.UTC)
    command = f"bench/strangers/run.py --strangers {options.strangers} --rounds {options.rounds}"
    report = begin_report("strangers", "A job beside strangers", started, command, ROOT)
    report["strangers"] = options.strangers
    report["found"] = measure(options.strangers, options.rounds)
    report["shown"] = shown(report["found"])
    write_result(report, page_of(report), RESULTS)
    print("\n".join(report["shown"]) or "nothing showed")
    return 1 if report["shown"] else 0


if __name__ == "__main__":
    sys.exit(main())
