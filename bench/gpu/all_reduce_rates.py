#!/usr/bin/env python3
"""All-reduces of two ranks on devices, in turns with what bounds them and with NCCL (on a CPU, with Gloo).

    python bench/gpu/all_reduce_rates.py --device cuda --output rates.json

The contenders:
- shoal: tensors on the device, by way of two servers on this machine
- shoal host: tensors in the host's memory, so what servers and transport take
- shoal, host: rank 0's tensors on the device and rank 1's in the host's memory, so that no two ranks share the device
- copies: no reduction; one rank copies a tensor to pinned host memory and another one from there, at once
- nccl: takes ranks of one device for those of two machines when NCCL_HOSTID differs, and talks by sockets then; if it
  does not take them, the file has its error instead of figures

Time is that of the host from the call to the end of the device's work. The last column is that of `shoal` in relation
to the slower of `copies` and `shoal host`, which a large op can't beat. At 256 MiB it may be 1.15: with more the number
is missed, and the exit code is 1.

With one device both ranks use it and its one link to the host. A device runs kernels of one process at a time, for two
milliseconds and more before it turns to the other: where kernels of both wait for each other, as in `shoal` and
`nccl`, that is what the figures show, and nothing that happens with a device for each rank. So the number is not judged
then. `shoal, host` has no such turns: the last column is of its time then.
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from hosts.cluster import Cluster

RANKS, SERVERS = 2, 2
PATIENCE = datetime.timedelta(seconds=60)
SIZES = [4 << 10, 1 << 20, 16 << 20, 256 << 20]
ROUNDS = 3
JUDGED_SIZE, MOST_TO_BOUND = 256 << 20, 1.15
OPS = {4 << 10: 200, 1 << 20: 50, 16 << 20: 20, 256 << 20: 5}
CONTENDERS = {
    "cuda": ["shoal", "shoal, host", "shoal host", "copies", "nccl"],
    "cpu": ["shoal", "gloo"],
}


def rank_of_contender(
    rank: int, contender: str, address: str, device: str, devices: int, port: int, sizes: list[int], results
) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SHOAL_QUIET": "1"}
    os.environ |= {"SHOAL_SCHEDULER": address, "SHOAL_JOB_NAME": "rates"}
    os.environ["SHOAL_NODE_REDUCE"] = "off"  # as ranks of two nodes, from the device and by way of servers
    os.environ["NCCL_HOSTID"] = f"rank-{rank}"
    backend = {"copies": "gloo"}.get(contender, contender.split()[0].rstrip(","))
    if contender == "shoal host" or (contender == "shoal, host" and rank == 1):
        device = "cpu"
    torch.set_num_threads(1)  # as torchrun does; threads that fill tensors would keep servers from their cores
    if backend == "shoal":
        import shoal  # noqa: F401  (registers the backend)
    try:
        if device == "cuda":
            torch.cuda.set_device(rank % devices)
        dist.init_process_group(backend, rank=rank, world_size=RANKS, timeout=PATIENCE)
        take_time = time_copies if contender == "copies" else time_all_reduces
        times_us = {size: take_time(size, device) for size in sizes}
        dist.destroy_process_group()
        outcome = {"times_us": times_us}
    except Exception as error:
        outcome = {"error": str(error).strip().splitlines()[0]}
    if rank == 0:
        results.put(outcome)


def time_all_reduces(size: int, device: str) -> float:
    """Of one in microseconds, the mean of some in a row."""
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


def time_copies(size: int, device: str) -> float:
    """Of `size` bytes to the host and as many from it, at once, by rank 0."""
    if dist.get_rank() != 0:
        dist.barrier()
        return 0.0
    up, down = (torch.ones(size // 4, device=device) for _ in range(2))
    from_up, to_down = (torch.ones(size // 4, pin_memory=True) for _ in range(2))
    streams = [torch.cuda.Stream() for _ in range(2)]

    def copy(times: int) -> None:
        for _ in range(times):
            with torch.cuda.stream(streams[0]):
                from_up.copy_(up, non_blocking=True)
            with torch.cuda.stream(streams[1]):
                down.copy_(to_down, non_blocking=True)
        torch.cuda.synchronize()

    copy(3)
    begun = time.perf_counter()
    copy(OPS[size])
    taken = time.perf_counter() - begun
    dist.barrier()
    return taken / OPS[size] * 1e6


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(contender: str, address: str, device: str, devices: int, sizes: list[int]) -> dict:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    arguments = (contender, address, device, devices, free_port(), sizes, results)
    ranks = multiprocessing.spawn(rank_of_contender, arguments, RANKS, join=False)
    while not ranks.join(timeout=1):
        pass
    return results.get()


def verdict(ratios: dict[int, float], devices: int) -> tuple[bool, str]:
    """Whether the number is missed, and a line that says what became of it."""
    size = f"{JUDGED_SIZE >> 20} MiB"
    if devices == 0:
        return False, f"{size} not judged: the tensors are in host memory"
    if devices < RANKS:
        return False, f"{size} not judged: both ranks share one device, which runs kernels of one process at a time"
    if JUDGED_SIZE not in ratios:
        return False, f"{size} not judged: it was not measured"
    ratio = ratios[JUDGED_SIZE]
    missed = ratio > MOST_TO_BOUND
    said = f"{ratio:.2f} times the slower of copies and transport, and {MOST_TO_BOUND} is the most"
    return missed, f"{size} {'missed' if missed else 'met'}: {said}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=pathlib.Path, help="write the figures to this JSON file")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="no tensor is larger")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of all contenders (%(default)s)")
    arguments = parser.parse_args()
    sizes = [size for size in SIZES if size <= arguments.largest]
    contenders = CONTENDERS[arguments.device]
    devices = min(torch.cuda.device_count(), RANKS) if arguments.device == "cuda" else 0
    found = {contender: [] for contender in contenders}
    errors = {}
    with Cluster() as cluster:
        cluster.environment["SHOAL_SERVER_FLIGHT_RECORDER"] = "off"
        cluster.start_scheduler()
        for number in range(SERVERS):
            cluster.start_server(f"server-{number}", "--net-device", "lo")
        for _ in range(arguments.rounds):
            for contender in contenders:
                if contender in errors:
                    continue
                outcome = run(contender, cluster.scheduler_address, arguments.device, devices, sizes)
                if "error" in outcome:
                    errors[contender] = outcome["error"]
                else:
                    found[contender].append(outcome["times_us"])
    figures = {
        contender: {size: statistics.median(each[size] for each in rounds) for size in sizes}
        for contender, rounds in found.items()
        if rounds
    }
    ratios = {}
    bounded = "shoal" if devices == RANKS else "shoal, host"
    if {bounded, "shoal host", "copies"} <= figures.keys():
        for size in sizes:
            ratios[size] = figures[bounded][size] / max(figures["shoal host"][size], figures["copies"][size])
    print(f"{'bytes':>12}" + "".join(f"{contender + ' us':>16}" for contender in figures) + f"{'to its bound':>16}")
    for size in sizes:
        row = "".join(f"{figures[contender][size]:>16.1f}" for contender in figures)
        print(f"{size:>12}{row}" + (f"{ratios[size]:>16.2f}" if ratios else ""))
    for contender, error in errors.items():
        print(f"{contender}: {error}")
    missed, said = verdict(ratios, devices)
    print(said)
    if arguments.output is not None:
        result = {"device": arguments.device, "devices": devices, "ranks": RANKS, "servers": SERVERS}
        result |= {"rounds": arguments.rounds, "median_us": figures, "all_us": found}
        result |= {"shoal_to_its_bound": ratios, "verdict": said, "errors": errors}
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if missed or errors.keys() - {"nccl"} else 0


if __name__ == "__main__":
    sys.exit(main())
