#!/usr/bin/env python3
"""How long torch's reconfigure takes with few and with many members, on Shoal and on Gloo in turns.

`bench/lost_ranks/members.py` after `make build`; two minutes. All members are processes of one node, and the roster
loses a member and takes it in again, in turns. Gloo makes its connections within reconfigure, and the Gloo inside of
Shoal when an operation needs them: so the first broadcast is measured too. Writes bench/results/reconfigure_DATE.json
and .md. Exit status 1 if 3 members take longer than 15 ms in the median, or 64 longer than 100 ms.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/pytorch"), str(ROOT / "bench")]

import torch
import torch.distributed as dist
from machine import begin_report, measured_by, write_result
from rank_processes import run_ranks
from shoal.mesh import FEW_RANKS, PAUSE_SECONDS
from torch_cluster import start_cluster

RESULTS = ROOT / "bench" / "results"
NAME = "reconfigure"
TITLE = "To exchange the ranks of a process group"
CONTENDERS = ("shoal", "gloo")
MOST_MS = {3: 15, 64: 100}  # by how many members there are
TIMEOUT = datetime.timedelta(seconds=120)


def change_rosters(_make_group: Callable, store_port: int, backend: str, rosters: int) -> list[tuple[float, float]]:
    """Of each change that this member was a part of, from when all were ready: seconds to the end of reconfigure, and
    to that of the first broadcast."""
    member, members = int(os.environ["TEST_RANK"]), int(os.environ["TEST_RANKS"])
    store = dist.TCPStore("127.0.0.1", store_port, is_master=False, timeout=TIMEOUT)
    own = dist.PrefixStore("of the group", store) if backend == "gloo" else dist.HashStore()
    dist.init_process_group(
        backend, store=own, rank=member, world_size=members, timeout=TIMEOUT, enable_reconfigure=True
    )
    took_s = []
    for number in range(rosters):
        present = members - number % 2
        if member < present:
            store.set(f"handle {number} {member}", dist._get_reconfigure_handle())
            handles = store.multi_get([f"handle {number} {each}" for each in range(present)])
            begin = time.monotonic()
            dist._reconfigure(number, [handle.decode() for handle in handles], timeout=TIMEOUT).wait()
            end = time.monotonic()
            tensor = torch.full((1000,), member + 1.0)
            dist.broadcast(tensor, group_src=0)
            took_s.append((end - begin, time.monotonic() - begin))
            assert (tensor == 1).all()
            tensor.fill_(member + 1.0)
            dist.all_reduce(tensor)
            assert (tensor == present * (present + 1) / 2).all()
        store.add(f"over {number}", 1)
        while store.add(f"over {number}", 0) < members:
            time.sleep(0.01)
    return took_s


def measure(sizes: list[int], turns: int, rosters: int) -> list[dict]:
    results = []
    for size in sizes:
        for turn in range(turns):
            for backend in CONTENDERS if turn % 2 == 0 else reversed(CONTENDERS):
                store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
                with start_cluster() as cluster:
                    call = (change_rosters, store.port, backend, rosters)
                    took = run_ranks(size, *call, environment=cluster.environment(), init=False)
                # Member 0 is always there. The first roster is made and not exchanged.
                exchanges = [list(zip(*each, strict=True)) for each in list(zip(*took[:-1], strict=True))[1:]]
                result = {"members": size, "contender": backend}
                for what, index in (("slowest_ms", 0), ("broadcast_ms", 1)):
                    result[what] = [1000 * max(exchange[index]) for exchange in exchanges]
                results.append(result)
                print(json.dumps(results[-1]), flush=True)
    return results


def of(results: list[dict], size: int, backend: str, what: str = "slowest_ms") -> list[float]:
    return [
        each
        for result in results
        if (result["members"], result["contender"]) == (size, backend)
        for each in result[what]
    ]


def too_slow(results: list[dict]) -> list[str]:
    medians = {size: statistics.median(of(results, size, "shoal")) for size in {each["members"] for each in results}}
    return [
        f"{size} members took {medians[size]:.0f} ms, and may take {most}"
        for size, most in MOST_MS.items()
        if size in medians and medians[size] > most
    ]


def page_of(report: dict) -> str:
    results = report["results"]
    rows = []
    for size in sorted({each["members"] for each in results}):
        cells = []
        for what in ("slowest_ms", "broadcast_ms"):
            for backend in CONTENDERS:
                took_ms = sorted(of(results, size, backend, what))
                cells.append(f"{statistics.median(took_ms):.0f} ({took_ms[0]:.0f} to {took_ms[-1]:.0f})")
        rows.append(f"| {size} | {len(of(results, size, 'shoal'))} | {' | '.join(cells)} |")
    lines = [
        f"# {TITLE}",
        "",
        measured_by(report),
        "",
        "Every member is a process of this node, over loopback TCP with two servers. One member leaves and comes in"
        f" turns. A time is the slowest member's from its call of `reconfigure` to the end, in ms: median (range)."
        f" {'; '.join(report['too_slow']) or 'Shoal keeps to its limits'}.",
        "",
        "| members | exchanges | Shoal | Gloo | Shoal, to the end of the first broadcast | Gloo, the same |",
        "|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "Gloo connects every member with every other within `reconfigure`. So does the Gloo inside of Shoal if"
        f" there are up to {FEW_RANKS} members. Among more, an operation connects the members that it needs, and the"
        f" others follow {PAUSE_SECONDS} s after the exchange, which is not measured.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, nargs="+", default=[3, 8, 64], help="how many (default 3 8 64)")
    parser.add_argument("--turns", type=int, default=2, help="of each contender (default %(default)s)")
    parser.add_argument("--rosters", type=int, default=11, help="in each turn (default %(default)s)")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.UTC)
    members = " ".join(map(str, arguments.members))
    command = (
        f"bench/lost_ranks/members.py --members {members} --turns {arguments.turns} --rosters {arguments.rosters}"
    )
    report = begin_report(NAME, TITLE, started, command, ROOT)
    report["results"] = measure(arguments.members, arguments.turns, arguments.rosters)
    report["too_slow"] = too_slow(report["results"])
    write_result(report, page_of(report), RESULTS)
    print("\n".join(report["too_slow"]) or "within its limits")
    return 1 if report["too_slow"] else 0


if __name__ == "__main__":
    sys.exit(main())
