#!/usr/bin/env python3
"""torchft trains with three replicas, which are killed one after the other: when do the others commit their next step?

`bench/lost_ranks/run.py` after `make build` and scripts/torchft.sh; a quarter of an hour. Shoal and Gloo take turns,
each with torchft's lighthouse at its defaults and with one that notices within half a second. A killed replica is
replaced by a process that waits with everything loaded. Writes bench/results/lost-ranks_DATE.json and .md. Exit status
1 if Shoal's median time to the next commit is longer than Gloo's, or its reconfigurations take longer than 15 ms.
"""

import argparse
import datetime
import json
import pathlib
import random
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/pytorch"), str(ROOT / "bench")]

from hosts.process import Process, Processes
from machine import begin_report, measured_by, write_result
from torch_cluster import Cluster, clean_environment, start_cluster

RESULTS = ROOT / "bench" / "results"
NAME = "lost-ranks"
TORCHFT = ROOT / "build/torchft/2026.10.26"
PROGRAM = ROOT / "tests/pytorch/torchft_program.py"
REPLICAS = 3
STEP_MS = 75
TIMEOUT_S = 10  # of all-reduces
CONTENDERS = ("shoal", "gloo")
# The defaults of torchft's program, and one that is quick.
LIGHTHOUSES = {
    "defaults": {"heartbeat_timeout_ms": 5000, "join_timeout_ms": 60000, "quorum_tick_ms": 100},
    "quick": {"heartbeat_timeout_ms": 500, "join_timeout_ms": 1000, "quorum_tick_ms": 20},
}
PATIENCE_S = 120
MOST_RECONFIGURE_MS = 15


class Training:
    """Some replicas and one in reserve, until the processes are ended."""

    def __init__(
        self, processes: Processes, cluster: Cluster, contender: str, lighthouse: dict[str, int], count: int = REPLICAS
    ):
        self._processes, self._contender, self._count = processes, contender, count
        self._environment = clean_environment(**cluster.environment(PYTHONPATH=str(TORCHFT)))
        options = ", ".join(f"{name}={value}" for name, value in lighthouse.items())
        program = (
            "import sys, torchft.coordination as c;"
            f"l = c.LighthouseServer(bind='127.0.0.1:0', min_replicas=2, {options});"
            "sys.stdout.write('address ' + l.address() + '\\n'); sys.stdin.read()"
        )
        started = processes.start([sys.executable, "-u", "-c", program], self._environment)
        self._lighthouse = "http://127.0.0.1:" + started.wait_for_line(r"^address .*:(\d+)$").group(1)
        self._started = 0
        self._seen: dict[Process, tuple[int, list[dict]]] = {}
        self.replicas = [self._start() for _ in range(count)]
        for replica in self.replicas:
            self.begin(replica)
        self.reserve = self._start()
        for replica in self.replicas:
            self.wait_for(replica, "step", lambda word: word["committed"] and word["replicas"] == count, count=10)

    def _start(self) -> Process:
        self._started += 1
        command = [
            *(sys.executable, str(PROGRAM), "--on-call", "--replica", f"r{self._started}", "--min-replicas", "2"),
            *("--lighthouse", self._lighthouse, "--group", self._contender, "--inside", "ddp"),
            *("--step-ms", str(STEP_MS), "--hidden", "8192", "--timeout", str(TIMEOUT_S)),
        ]
        return self._processes.start(command, self._environment)

    def begin(self, replica: Process) -> None:
        replica.wait_for_line('^{"kind": "loaded"', PATIENCE_S)
        replica.say("begin")

    def words(self, replica: Process, kind: str) -> list[dict]:
        lines = replica.output.splitlines()
        counted, words = self._seen.get(replica, (0, []))
        words += [json.loads(line) for line in lines[counted:] if line.startswith('{"kind"')]
        self._seen[replica] = (len(lines), words)
        return [word for word in words if word["kind"] == kind]

    def wait_for(self, replica: Process, kind: str, is_meant, count: int = 1) -> dict:
        """The first one that is meant, when so many are there."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = [word for word in self.words(replica, kind) if is_meant(word)]
            if len(found) >= count:
                return found[0]
            assert replica.running(), replica
            time.sleep(0.05)
        raise AssertionError(f"no such {kind}: {replica}")

    def kill(self, moments: random.Random) -> None:
        self.replicas.pop(moments.randrange(len(self.replicas))).process.kill()

    def replace(self) -> Process:
        """The one in reserve takes the place of one that was killed."""
        replica, self.reserve = self.reserve, self._start()
        self.begin(replica)
        self.replicas.append(replica)
        return replica

    def kill_one(self, moments: random.Random) -> dict:
        """What the others saw of it, in seconds since the kill; then another one takes its place."""
        time.sleep(moments.uniform(0.5, 0.5 + 2 * STEP_MS / 1000))
        self.kill(moments)
        at = time.time()
        result = {"commit_s": 0.0, "steps_lost": 0, "reconfigure_ms": []}
        for other in self.replicas:
            commit = self.wait_for(
                other, "step", lambda word: word["at"] > at and word["committed"] and word["replicas"] < self._count
            )
            lost = [w for w in self.words(other, "step") if at < w["at"] < commit["at"] and not w["committed"]]
            result["commit_s"] = max(result["commit_s"], commit["at"] - at)
            result["steps_lost"] = max(result["steps_lost"], len(lost))
        self.replace()
        for each in self.replicas:
            self.wait_for(
                each, "step", lambda word: word["at"] > at and word["committed"] and word["replicas"] == self._count, 3
            )
            found = [word["seconds"] * 1000 for word in self.words(each, "reconfigured") if word["at"] > at]
            result["reconfigure_ms"] += found
        self.reserve.wait_for_line('^{"kind": "loaded"', PATIENCE_S)  # it must not compute beside the next kill
        return result


def measure(kills: int, turns: int, seed: int) -> list[dict]:
    moments = random.Random(seed)
    results = []
    for name, lighthouse in LIGHTHOUSES.items():
        for turn in range(turns):
            for contender in CONTENDERS if turn % 2 == 0 else reversed(CONTENDERS):
                with start_cluster() as cluster, Processes() as processes:
                    training = Training(processes, cluster, contender, lighthouse)
                    for _ in range(kills // turns):
                        result = training.kill_one(moments)
                        results.append({"lighthouse": name, "contender": contender, **result})
                        print(json.dumps(results[-1]), flush=True)
    return results


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def of(results: list[dict], lighthouse: str, contender: str, what: str) -> list[float]:
    chosen = [r for r in results if r["lighthouse"] == lighthouse and r["contender"] == contender]
    if what == "reconfigure_ms":
        return [each for result in chosen for each in result[what]]
    return [result[what] for result in chosen]


def too_slow(results: list[dict]) -> list[str]:
    found = []
    for name in LIGHTHOUSES:
        ours, theirs = (statistics.median(of(results, name, contender, "commit_s")) for contender in CONTENDERS)
        if ours > theirs:
            found.append(f"lighthouse {name}: {ours:.2f} s to the next commit, Gloo {theirs:.2f} s")
        took_ms = statistics.median(of(results, name, "shoal", "reconfigure_ms"))
        if took_ms > MOST_RECONFIGURE_MS:
            found.append(f"lighthouse {name}: reconfigured in {took_ms:.0f} ms")
    return found


def page_of(report: dict) -> str:
    results = report["results"]
    rows = []
    for name in LIGHTHOUSES:
        for contender in CONTENDERS:
            commits = of(results, name, contender, "commit_s")
            lost = of(results, name, contender, "steps_lost")
            took_ms = of(results, name, contender, "reconfigure_ms")
            rows.append(
                f"| {name} | {contender} | {len(commits)} | {statistics.median(commits):.2f}"
                f" ({min(commits):.2f} to {max(commits):.2f}) | {statistics.mean(lost):.2f} |"
                f" {statistics.median(took_ms):.0f} ({quantile(took_ms, 0.9):.0f}) |"
            )
    verdict = "; ".join(report["too_slow"]) or "Shoal's survivors commit no later than Gloo's"
    lines = [
        "# A replica of torchft is killed",
        "",
        measured_by(report),
        "",
        f"torchft's nightly build of 2026-10-26, {REPLICAS} replicas of one rank on one node, over loopback TCP with"
        f" two servers; a step computes {STEP_MS} ms, and its gradients are 1.1 MB in DistributedDataParallel. One"
        " replica after the other is killed at a random moment, and replaced by one that was loaded before; contenders"
        f" take turns. {verdict}.",
        "",
        "| lighthouse | contender | kills | from the kill to the survivors' next commit, s: median (range) |"
        " steps that they lost, mean | to reconfigure, ms: median (p90) |",
        "|---|---|---:|---:|---:|---:|",
        *rows,
        "",
        "The lighthouse takes most of the time: at its defaults it leaves a replica out after 5 s without a word, and"
        f" the quick one after 0.5 s. All-reduces time out after {TIMEOUT_S} s. To reconfigure is counted at survivors"
        " and newcomers. With Gloo this includes its store's connections; with Shoal the group on the servers and Gloo"
        " inside of it.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=20, help="of each contender and lighthouse (default %(default)s)")
    parser.add_argument("--turns", type=int, default=4, help="in which they are made (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the kills' moments (default %(default)s)")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    command = f"bench/lost_ranks/run.py --kills {arguments.kills} --turns {arguments.turns} --seed {arguments.seed}"
    report = begin_report(NAME, "A replica of torchft is killed", started, command, ROOT)
    report["results"] = measure(arguments.kills, arguments.turns, arguments.seed)
    report["too_slow"] = too_slow(report["results"])
    write_result(report, page_of(report), RESULTS)
    print("\n".join(report["too_slow"]) or "no slower than Gloo")
    return 1 if report["too_slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
