#!/usr/bin/env python3
"""What certificates cost a scheduler: how long a rank takes to join, and the processor time of a heartbeat.

`bench/identities/run.py` after a build of `member_load` and `shoal-scheduler`; two minutes. A job's ranks join one
scheduler over a connection each, and renew their leases, in turns in plain text and with certificates, each run at a
scheduler of its own. Writes bench/results/identities_DATE.json and .md. Exit status 1 if certificates add more than
5 ms to a join, or take the scheduler more than 1.5 times the processor time.
"""

import argparse
import datetime
import pathlib
import re
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from hosts.authority import Authority
from hosts.cluster import Cluster
from machine import begin_report, measured_by, write_result

RESULTS = ROOT / "bench" / "results"
RANKS, HEARTBEATS = 1024, 20
MOST_JOIN_MS, MOST_TIMES = 5.0, 1.5
KINDS = ("in plain text", "with certificates")


def run_once(authority: Authority, with_certificates: bool) -> dict[str, float]:
    files = {who: authority.member(who) if with_certificates else [] for who in ("scheduler", "worker/load")}
    with Cluster() as cluster:
        scheduler = cluster.start_scheduler(*files["scheduler"], lease_ttl_ms=600_000)
        load = cluster.start(
            [cluster.program("member_load"), "--scheduler", cluster.scheduler_address, "--pid", str(scheduler.pid)]
            + ["--ranks", str(RANKS), "--rounds", str(HEARTBEATS), *files["worker/load"]]
        )
        assert load.wait(600) == 0, str(load)
        return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", load.output)}


def median(runs: list[dict], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def page_of(report: dict) -> str:
    found = report["found"]
    rows = [
        f"| {kind} | {median(found[kind], 'join_p50_ms'):.2f} | {median(found[kind], 'join_p90_ms'):.2f} |"
        f" {median(found[kind], 'join_processor_ms'):.2f} |"
        f" {median(found[kind], 'processor_us_per_heartbeat'):.1f} |"
        f" {', '.join(str(run['processor_us_per_heartbeat']) for run in found[kind])} |"
        for kind in KINDS
    ]
    return "\n".join(
        [
            "# What certificates cost a scheduler",
            "",
            measured_by(report),
            "",
            f"{RANKS} ranks of one job join a scheduler, each over a connection of its own, and send {HEARTBEATS}"
            " heartbeats each, one after the other; both programs are on one node. Medians of"
            f" {len(found[KINDS[0]])} runs of each kind, in turns. A join includes the connection. The load average was"
            f" {report['load_average_before']:.1f} before, and other programs ran meanwhile. Certificates add"
            f" {report['join_added_ms']:.2f} ms to a join, and a heartbeat takes the scheduler"
            f" {report['heartbeat_times']:.2f} times the processor time.",
            "",
            "| | join p50 (ms) | join p90 (ms) | processor time of a join, both ends (ms) | of a heartbeat (us) |"
            " of each run |",
            "|---|---:|---:|---:|---:|---|",
            *rows,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind, in turns (default %(default)s)")
    options = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    command = f"bench/identities/run.py --rounds {options.rounds}"
    report = begin_report("identities", "What certificates cost a scheduler", started, command, ROOT)
    report["found"] = found = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(pathlib.Path(folder) / "authority")
        for number in range(options.rounds):
            for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                found[kind].append(run_once(authority, kind == KINDS[1]))
                print(kind, found[kind][-1], flush=True)
    plain, secured = (found[kind] for kind in KINDS)
    report["join_added_ms"] = median(secured, "join_p50_ms") - median(plain, "join_p50_ms")
    name = "processor_us_per_heartbeat"
    report["heartbeat_times"] = median(secured, name) / median(plain, name)
    write_result(report, page_of(report), RESULTS)
    print(f"{report['join_added_ms']:.2f} ms more to join, {report['heartbeat_times']:.2f} times the processor time")
    return 1 if report["join_added_ms"] > MOST_JOIN_MS or report["heartbeat_times"] > MOST_TIMES else 0


if __name__ == "__main__":
    sys.exit(main())
