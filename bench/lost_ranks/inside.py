#!/usr/bin/env python3
"""A rank is killed inside an all-reduce of a group that goes on: how much longer does the op take on the others?

`bench/lost_ranks/inside.py` after `make build`, as root; ten minutes. Four ranks and four servers, each on a node of
its own with a shaped link, reduce 25 MiB again and again. One rank is killed at a random moment, and in every second
run a server in the same second. Writes bench/results/lost-ranks-inside_DATE.json and .md. Exit status 1 if an op
failed, or took longer than it may.
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from hosts.cluster import LIBRARY, Cluster, linked_cluster
from hosts.process import Process
from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
NAME = "lost-ranks-inside"
TITLE = "A rank is killed inside an all-reduce"
PROGRAM = ROOT / "tests/process/open_rank_program.py"
RANKS = SERVERS = 4
RATE_MBIT = 400
OPS = 12
KILL_AFTER = 4  # ops
# Above the ops before.
MOST_MEDIAN_S, MOST_S = 0.5, 1.0
# From the kill until the scheduler tells that the rank is lost.
MOST_NOTICED_S = 0.3


def start_rank(cluster: Cluster, index: int) -> Process:
    node = cluster.network.workers[index]
    options = ["--library", str(LIBRARY), "--scheduler", cluster.scheduler_address, "--net-device", node.device]
    with cluster.on(node):
        return cluster.start([sys.executable, str(PROGRAM), *options, "--network-only"])


def ops_of(process: Process) -> list[dict]:
    pattern = re.compile(r"^group op (\d+) (\d+)-(\d+) \S+ (\w+) ([\d.]+)$", re.MULTILINE)
    return [
        {"least": int(op[2]), "most": int(op[3]), "digest": op[4], "seconds": float(op[5])}
        for op in pattern.finditer(process.output)
    ]


def kill_once(moments: random.Random, with_server: bool) -> dict:
    with linked_cluster(RANKS, SERVERS) as cluster:
        for node in cluster.network.workers + cluster.network.servers:
            cluster.network.shape_link(node, RATE_MBIT)
        cluster.start_scheduler()
        servers = cluster.start_servers()
        ranks = {}
        for index in range(RANKS):
            process = start_rank(cluster, index)
            ranks[int(process.wait_for_line(r"^joined as rank (\d+)$").group(1))] = process
        for process in ranks.values():
            process.say(f"go on group {','.join(map(str, sorted(ranks)))} 2 {OPS} 1")
        ranks[0].wait_for_line(f"^group op {KILL_AFTER - 1} ")
        time.sleep(moments.uniform(0, statistics.median(op["seconds"] for op in ops_of(ranks[0]))))
        victim = moments.choice([rank for rank in ranks if rank != 0])
        ranks.pop(victim).process.kill()
        killed_at_s = time.time()
        if with_server:
            time.sleep(moments.uniform(0, 1))
            moments.choice(list(servers.values())).process.kill()
        for process in ranks.values():
            process.wait_for_line("^group (over|refused)")
        told = [ops_of(process) for process in ranks.values()]
        before = statistics.median(op["seconds"] for ops in told for op in ops[1:KILL_AFTER])
        [lost_ms] = [int(event["at_unix_ms"]) for event in cluster.events() if event["kind"] == "rank-lost"]
        return {
            "with_server": with_server,
            "failed": sum(OPS - len(ops) for ops in told),
            "differ": sum(len({op["digest"] for op in of_ranks}) > 1 for of_ranks in zip(*told, strict=False)),
            "mixed": sum(op["least"] < op["most"] for op in told[0]),
            "noticed_s": lost_ms / 1000 - killed_at_s,
            "before_s": before,
            "longest_s": max((op["seconds"] for ops in told for op in ops[KILL_AFTER:]), default=0.0),
        }


def wrong(results: list[dict]) -> list[str]:
    found = []
    if failed := sum(result["failed"] for result in results):
        found.append(f"{failed} ops failed")
    if differ := sum(result["differ"] for result in results):
        found.append(f"{differ} ops have other bits on some ranks")
    for with_server in (False, True):
        longer = [r["longest_s"] - r["before_s"] for r in results if r["with_server"] == with_server]
        which = "with a server" if with_server else "a rank alone"
        noticed_s = max(r["noticed_s"] for r in results if r["with_server"] == with_server)
        if noticed_s > MOST_NOTICED_S:
            found.append(f"{which}: it was noticed after {noticed_s:.2f} s")
        if statistics.median(longer) > MOST_MEDIAN_S:
            found.append(f"{which}: an op took {statistics.median(longer):.2f} s longer in the median")
        if max(longer) > MOST_S:
            found.append(f"{which}: an op took {max(longer):.2f} s longer")
    return found


def page_of(report: dict) -> str:
    results = report["results"]
    rows = []
    for with_server in (False, True):
        chosen = [result for result in results if result["with_server"] == with_server]
        longer = [result["longest_s"] - result["before_s"] for result in chosen]
        rows.append(
            f"| {'a rank, and a server in the same second' if with_server else 'a rank'} | {len(chosen)} |"
            f" {sum(result['failed'] for result in chosen)} | {sum(result['mixed'] for result in chosen)} |"
            f" {statistics.median(result['noticed_s'] for result in chosen):.2f}"
            f" ({max(result['noticed_s'] for result in chosen):.2f}) |"
            f" {statistics.median(result['before_s'] for result in chosen):.2f} |"
            f" {statistics.median(longer):.2f} | {max(longer):.2f} |"
        )
    verdict = "; ".join(report["wrong"]) or "No op failed, and all ranks had the same bits"
    lines = [
        f"# {TITLE}",
        "",
        measured_by(report),
        "",
        f"{RANKS} ranks and {SERVERS} servers, each on a node of its own with a link of {RATE_MBIT} Mbit/s, reduce"
        f" 25 MiB of float32 {OPS} times in a group that goes on without lost ranks. {verdict}.",
        "",
        "| killed | runs | ops that failed | ops whose chunks have different contributors |"
        " noticed after, s: median (most) | an op before, s |"
        " the longest op after it takes longer by, s: median | most |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=40, help="half of them with a server's (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the kills' moments (default %(default)s)")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    command = f"bench/lost_ranks/inside.py --kills {arguments.kills} --seed {arguments.seed}"
    report = begin_report(NAME, TITLE, started, command, ROOT)
    moments = random.Random(arguments.seed)
    report["results"] = []
    for number in range(arguments.kills):
        report["results"].append(kill_once(moments, with_server=number % 2 == 1))
        print(json.dumps(report["results"][-1]), flush=True)
    report["wrong"] = wrong(report["results"])
    write_result(report, page_of(report), RESULTS)
    print("\n".join(report["wrong"]) or "no op failed")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
