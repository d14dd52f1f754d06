#!/usr/bin/env python3
"""Compares all-reduce through Shoal with torch's Gloo on this machine's loopback, and checks the servers' balance.

Rounds of both are interleaved in one run (A B, B A, A B, ...), results are checked, everything is bounded in time, and no
process is left behind. Writes bench/results/loopback_DATE.json and the same as a page (.md).
"""

import argparse
import datetime
import json
import pathlib
import shlex
import signal
import sys
import tempfile
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import machine
import summary
from cluster import Cluster, run_bounded

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Bytes, timed all-reduces and all-reduces of warm-up in a round.
CASES = [(4096, 500, 50), (1 << 20, 100, 10), (25 << 20, 20, 3)]
BALANCE_BYTES = 25 << 20
BALANCE_SERVERS = (2, 3, 8)
RUN_TIMEOUT_S = 180


def run_shoal_perf(programs: pathlib.Path, cluster: Cluster, ranks: int, flags: list[str]) -> dict:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [str(programs / "shoal-perf"), "--spawn", str(ranks), "--scheduler", cluster.scheduler]
        command += ["--job", f"bench-{uuid.uuid4().hex[:12]}", "--min-servers", str(cluster.server_count)]
        command += ["--net-device", "lo", "--transports", "tcp", "--json", str(report), *flags]
        run_bounded([command], RUN_TIMEOUT_S)
        return json.loads(report.read_text())


def shoal_round(programs: pathlib.Path, cluster: Cluster, ranks: int) -> list[dict]:
    results = []
    for size_bytes, iterations, warmup in CASES:
        flags = ["-b", str(size_bytes), "-n", str(iterations), "-w", str(warmup), "-c", "1"]
        results += run_shoal_perf(programs, cluster, ranks, flags)["results"]
    return results


def gloo_round(ranks: int) -> tuple[list[dict], str]:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        cases = [f"--case={size_bytes}:{iterations}:{warmup}" for size_bytes, iterations, warmup in CASES]
        script = str(pathlib.Path(__file__).parent / "gloo_all_reduce.py")
        commands = [
            [sys.executable, script, f"--rank={rank}", f"--world-size={ranks}", f"--store={folder}/store", *cases]
            for rank in range(ranks)
        ]
        report = json.loads(run_bounded(commands, RUN_TIMEOUT_S, {"GLOO_SOCKET_IFNAME": "lo"})[0])
        return report["results"], report["torch"]


def measure_balance(programs: pathlib.Path, ranks: int) -> list[dict]:
    entries = []
    for server_count in BALANCE_SERVERS:
        with Cluster(programs, server_count) as cluster:
            flags = ["-b", str(BALANCE_BYTES), "-n", "4", "-w", "0", "-c", "0"]
            report = run_shoal_perf(programs, cluster, ranks, flags)
        per_server: dict[str, int] = {}
        for shard in report["servers"]:
            per_server[shard["name"]] = per_server.get(shard["name"], 0) + shard["bytes_pushed"]
        mean = sum(per_server.values()) / len(per_server)
        entries.append(
            {
                "servers": server_count,
                "bytes_per_server": per_server,
                "max_over_mean": max(per_server.values()) / mean,
            }
        )
        print(f"balance with {server_count} servers: max/mean {entries[-1]['max_over_mean']:.5f}", flush=True)
    return entries


def summarize(shoal_rounds: list[list[dict]], gloo_rounds: list[list[dict]]) -> list[dict]:
    cases = []
    for index, (size_bytes, iterations, warmup) in enumerate(CASES):
        shoal = [results[index] for results in shoal_rounds]
        gloo = [results[index] for results in gloo_rounds]
        shoal_p50 = [result["time_us_p50"] for result in shoal]
        gloo_p50 = [result["time_us_p50"] for result in gloo]
        cases.append(
            {
                "bytes": size_bytes,
                "iterations": iterations,
                "warmup_iterations": warmup,
                "shoal_p50_us": summary.spread(shoal_p50),
                "gloo_p50_us": summary.spread(gloo_p50),
                "shoal_p99_us": summary.spread([result["time_us_p99"] for result in shoal]),
                "gloo_p99_us": summary.spread([result["time_us_p99"] for result in gloo]),
                "ratio": summary.ratio_of_medians(shoal_p50, gloo_p50),
                "wrong": sum(result["wrong"] for result in shoal + gloo),
            }
        )
    return cases


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="of each contender (default %(default)s, at least 5)")
    parser.add_argument("--ranks", type=int, default=4, help="processes that reduce (default %(default)s)")
    parser.add_argument("--servers", type=int, default=2, help="shoal-server processes (default %(default)s)")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/bin", help="folder (default build/bin)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results", help="folder for the results")
    arguments = parser.parse_args()
    if arguments.rounds < 5:
        parser.error("--rounds must be at least 5, or the interval says nothing")
    for program in ("shoal-scheduler", "shoal-server", "shoal-perf"):
        if not (arguments.programs / program).is_file():
            parser.error(f"{arguments.programs / program} is not there: run `make build`, or give --programs")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = datetime.datetime.now(datetime.timezone.utc)
    report = {
        "benchmark": "loopback",
        "started_at": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(["bench/loopback/run.py", *sys.argv[1:]]),
        "machine": machine.gather(ROOT),
        "load_average_before": machine.load_average_1min(),
        "ranks": arguments.ranks,
        "servers": arguments.servers,
        "rounds": arguments.rounds,
    }
    if report["load_average_before"] > 0.5:
        print(f"warning: load average {report['load_average_before']:.2f}, others are busy here", file=sys.stderr)
    shoal_rounds: list[list[dict]] = []
    gloo_rounds: list[list[dict]] = []
    with Cluster(arguments.programs, arguments.servers) as cluster:
        for number in range(arguments.rounds):
            for contender in ("shoal", "gloo") if number % 2 == 0 else ("gloo", "shoal"):
                if contender == "shoal":
                    shoal_rounds.append(shoal_round(arguments.programs, cluster, arguments.ranks))
                else:
                    results, report["torch"] = gloo_round(arguments.ranks)
                    gloo_rounds.append(results)
            times = "  ".join(
                f"{summary.size_text(shoal['bytes'])}: {summary.time_text(shoal['time_us_p50'])}"
                f" / {summary.time_text(gloo['time_us_p50'])}"
                for shoal, gloo in zip(shoal_rounds[-1], gloo_rounds[-1])
            )
            print(f"round {number + 1} of {arguments.rounds}, Shoal / Gloo: {times}", flush=True)
    report["cases"] = summarize(shoal_rounds, gloo_rounds)
    report["load_average_after"] = machine.load_average_1min()
    report["balance"] = measure_balance(arguments.programs, arguments.ranks)

    arguments.output.mkdir(parents=True, exist_ok=True)
    base = arguments.output / f"loopback_{started:%Y-%m-%d}"
    base.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    page = summary.markdown(report)
    base.with_suffix(".md").write_text(page)
    print(f"\n{page}\nwritten: {base}.json and .md")
    return 0 if all(case["wrong"] == 0 for case in report["cases"]) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(f"bench/loopback: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
