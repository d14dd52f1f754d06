#!/usr/bin/env python3
"""torchft trains with four replicas, one of which is killed every 20 seconds: how many samples count?

`bench/lost_ranks/steady.py` after `make build` and scripts/torchft.sh; 45 minutes. The cases take turns.
A process that waits with everything loaded takes the place of the one that is killed. Writes
bench/results/lost-ranks-steady_DATE.json and .md. Exit status 1 if Shoal with a quick lighthouse has less than 1.3
times the samples of Gloo with the lighthouse at its defaults.
"""

import argparse
import dataclasses
import datetime
import json
import random
import statistics
import sys
import time

from run import LIGHTHOUSES, RESULTS, ROOT, STEP_MS, TIMEOUT_S, Training
from hosts.process import Processes  # run.py has set the path
from machine import begin_report, measured_by, write_result
from torch_cluster import start_cluster

NAME = "lost-ranks-steady"
TITLE = "A replica of torchft is killed every 20 seconds"
REPLICAS = 4
EVERY_S = 20
SAMPLES = 16  # of a replica in a step
LEAST_RATIO = 1.3
LAST_STEPS = 100  # whose losses count, of each replica that is there at the end


@dataclasses.dataclass(frozen=True)
class Case:
    contender: str
    lighthouse: str
    kills: bool


OURS, THEIRS, THEIRS_QUICK = Case("shoal", "quick", True), Case("gloo", "defaults", True), Case("gloo", "quick", True)
UNDISTURBED = Case("shoal", "quick", False)
CASES = (OURS, THEIRS, THEIRS_QUICK, UNDISTURBED)


def train(case: Case, seconds: float, victims: random.Random) -> dict:
    with start_cluster() as cluster, Processes() as processes:
        training = Training(processes, cluster, case.contender, LIGHTHOUSES[case.lighthouse], REPLICAS)
        first = list(training.replicas)
        newcomers = []
        begin = time.time()
        for number in range(1, int(seconds / EVERY_S) + 1):
            time.sleep(max(0.0, begin + EVERY_S * number - time.time()))
            if case.kills and EVERY_S * number < seconds:
                training.kill(victims)
                newcomers.append(training.replace())
        time.sleep(max(0.0, begin + seconds - time.time()))

        def committed(replica: object) -> list[dict]:
            words = training.words(replica, "step")
            return [word for word in words if word["committed"] and begin <= word["at"] < begin + seconds]

        # In its first step a newcomer is healed, and its gradient counts nothing.
        steps = sum(len(committed(replica)) for replica in first)
        steps += sum(max(0, len(committed(replica)) - 1) for replica in newcomers)
        losses = [word["loss"] for replica in training.replicas for word in committed(replica)[-LAST_STEPS:]]
        return {
            **dataclasses.asdict(case),
            "killed": len(newcomers),
            "seconds": seconds,
            "samples": SAMPLES * steps,
            "loss": statistics.mean(losses),
            "last_step": max(word["step"] for replica in training.replicas for word in committed(replica)),
        }


def measure(seconds: float, turns: int, seed: int) -> list[dict]:
    results = []
    for turn in range(turns):
        for case in CASES if turn % 2 == 0 else reversed(CASES):
            # The same victims for each case.
            results.append({"turn": turn, **train(case, seconds, random.Random(f"{seed} {turn}"))})
            print(json.dumps(results[-1]), flush=True)
    return results


def of(results: list[dict], case: Case) -> list[dict]:
    return [each for each in results if Case(each["contender"], each["lighthouse"], each["kills"]) == case]


def samples_per_s(results: list[dict], case: Case) -> float:
    return sum(each["samples"] for each in of(results, case)) / sum(each["seconds"] for each in of(results, case))


def page_of(report: dict) -> str:
    results = report["results"]
    rows = []
    for case in CASES:
        turns = of(results, case)
        rates = [each["samples"] / each["seconds"] for each in turns]
        rows.append(
            f"| {case.contender} | {case.lighthouse} | {sum(each['killed'] for each in turns)} |"
            f" {samples_per_s(results, case):.0f} ({min(rates):.0f} to {max(rates):.0f}) |"
            f" {samples_per_s(results, case) / samples_per_s(results, UNDISTURBED):.2f} |"
            f" {statistics.mean(each['last_step'] for each in turns):.0f} |"
            f" {statistics.mean(each['loss'] for each in turns):.2g} |"
        )
    turns, seconds = len(of(results, OURS)), results[0]["seconds"]
    lines = [
        f"# {TITLE}",
        "",
        measured_by(report),
        "",
        f"torchft's nightly build of 2026-10-26, {REPLICAS} replicas of one rank on one node, over loopback TCP with"
        f" two servers; a step computes {STEP_MS} ms, and its gradients are 1.1 MB in DistributedDataParallel. One"
        " that was loaded before takes the place of the replica that is killed, and is healed; another is loaded then,"
        f" on the same two processors. Each case has {turns} turns of {seconds:.0f} s. The cases take turns in"
        " alternating order, and the same replicas are killed in each of them.",
        "",
        f"Shoal with a quick lighthouse has **{report['ratio']:.2f}** times the samples of Gloo with the lighthouse at"
        f" its defaults. Gloo gains by a quick lighthouse too: beside it, Shoal has **{report['ratio_quick']:.2f}**"
        " times the samples.",
        "",
        "| group | lighthouse | kills | samples that count, 1/s (of the turns) | of undisturbed | steps in a turn |"
        f" loss in the last {LAST_STEPS} steps |",
        "|---|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "A sample counts if the step of its replica was committed while the replica took part. At its defaults the"
        " lighthouse leaves a replica out after 5 s without a word, and the quick one after 0.5 s. All-reduces time out"
        f" after {TIMEOUT_S} s.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=300, help="of each case in each turn (default %(default)s)")
    parser.add_argument("--turns", type=int, default=2, help="of each case (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed (default %(default)s)")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    command = (
        f"bench/lost_ranks/steady.py --seconds {arguments.seconds:.0f} --turns {arguments.turns}"
        f" --seed {arguments.seed}"
    )
    report = begin_report(NAME, TITLE, started, command, ROOT)
    report["results"] = measure(arguments.seconds, arguments.turns, arguments.seed)
    ours = samples_per_s(report["results"], OURS)
    report["ratio"] = ours / samples_per_s(report["results"], THEIRS)
    report["ratio_quick"] = ours / samples_per_s(report["results"], THEIRS_QUICK)
    write_result(report, page_of(report), RESULTS)
    print(f"{report['ratio']:.2f} times the samples of Gloo")
    return 1 if report["ratio"] < LEAST_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
