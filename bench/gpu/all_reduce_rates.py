#!/usr/bin/env python3
"""All-reduces of two ranks on one device: Shoal's backend beside NCCL (on a CPU, beside Gloo), in turns.

    python bench/gpu/all_reduce_rates.py --device cuda --output rates.json

Both ranks use the first device, so the figures say what the copies to and from the host cost, and nothing of a network.
NCCL takes ranks of one device for those of two machines when NCCL_HOSTID differs; if it does not take them, the file
has its error instead of figures. Time is that of the host from the call to the end of the device's work.
"""

import argparse
import datetime
import json
import os
import pathlib
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

RANKS = 2
PATIENCE = datetime.timedelta(seconds=60)
SIZES = [4 << 10, 1 << 20, 16 << 20, 256 << 20]
ROUNDS = 3
OPS = {4 << 10: 200, 1 << 20: 50, 16 << 20: 20, 256 << 20: 5}


def rank_of_contender(rank: int, backend: str, device: str, port: int, sizes: list[int], results) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SHOAL_QUIET": "1"}
    os.environ["SHOAL_NODE_REDUCE"] = "off"  # as ranks of two nodes, from the device and by way of servers
    os.environ["NCCL_HOSTID"] = f"rank-{rank}"
    if backend == "shoal":
        import shoal  # noqa: F401  (registers the backend)
    try:
        if device == "cuda":
            torch.cuda.set_device(0)
        dist.init_process_group(backend, rank=rank, world_size=RANKS, timeout=PATIENCE)
        times_us = {size: time_size(size, device) for size in sizes}
        dist.destroy_process_group()
        outcome = {"times_us": times_us}
    except Exception as error:
        outcome = {"error": str(error).strip().splitlines()[0]}
    if rank == 0:
        results.put(outcome)


def time_size(size: int, device: str) -> float:
    """Of one all-reduce in microseconds, the mean of some in a row."""
    tensor = torch.ones(size // 4, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        dist.all_reduce(tensor)
    if not bool((tensor == RANKS**3).all()):
        raise RuntimeError(f"the sum of {size} bytes is wrong")
    wait()
    begun = time.perf_counter()
    for _ in range(OPS[size]):
        tensor.fill_(1)
        dist.all_reduce(tensor)
    wait()
    return (time.perf_counter() - begun) / OPS[size] * 1e6


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(backend: str, device: str, sizes: list[int]) -> dict:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    arguments = (backend, device, free_port(), sizes, results)
    ranks = multiprocessing.spawn(rank_of_contender, arguments, RANKS, join=False)
    while not ranks.join(timeout=1):
        pass
    return results.get()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=pathlib.Path, help="write the figures to this JSON file")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="no tensor is larger")
    arguments = parser.parse_args()
    sizes = [size for size in SIZES if size <= arguments.largest]
    contenders = ["shoal", "nccl" if arguments.device == "cuda" else "gloo"]
    found = {backend: [] for backend in contenders}
    errors = {}
    for _ in range(ROUNDS):
        for backend in contenders:
            outcome = run(backend, arguments.device, sizes) if backend not in errors else {}
            if "error" in outcome:
                errors[backend] = outcome["error"]
            elif outcome:
                found[backend].append(outcome["times_us"])
    figures = {
        backend: {size: statistics.median(each[size] for each in rounds) for size in sizes}
        for backend, rounds in found.items()
        if rounds
    }
    print(f"{'bytes':>12}" + "".join(f"{backend + ' us':>14}" for backend in figures))
    for size in sizes:
        print(f"{size:>12}" + "".join(f"{figures[backend][size]:>14.1f}" for backend in figures))
    for backend, error in errors.items():
        print(f"{backend}: {error}")
    if arguments.output is not None:
        result = {"device": arguments.device, "ranks": RANKS, "rounds": ROUNDS, "median_us": figures, "errors": errors}
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if "shoal" in errors else 0


if __name__ == "__main__":
    sys.exit(main())
