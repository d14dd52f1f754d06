"""One rank of torch's Gloo all-reduce, timed and checked as shoal-perf does it. Rank 0 prints JSON. Started by run.py."""

import argparse
import json
import math
import time

import torch
import torch.distributed as dist


def measure(numel: int, iterations: int, warmup: int, rank: int, world_size: int) -> dict:
    generator = torch.Generator().manual_seed(1000 + rank)
    tensor = torch.randint(-2, 3, (numel,), generator=generator).to(torch.float32)
    expected = torch.zeros(numel)
    for other in range(world_size):
        generator = torch.Generator().manual_seed(1000 + other)
        expected += torch.randint(-2, 3, (numel,), generator=generator).to(torch.float32)
    dist.all_reduce(tensor)
    wrong = torch.tensor([int((tensor != expected).sum())], dtype=torch.int64)
    dist.all_reduce(wrong)

    tensor = torch.rand(numel, generator=generator)
    for _ in range(warmup):
        dist.all_reduce(tensor)
    # In place and over and over, as shoal-perf does: the numbers grow to infinity, which costs no time.
    times_us = []
    dist.all_reduce(torch.zeros(1))
    loop_start = time.perf_counter()
    for _ in range(iterations):
        start = time.perf_counter()
        dist.all_reduce(tensor)
        times_us.append((time.perf_counter() - start) * 1e6)
    times_us.append((time.perf_counter() - loop_start) * 1e6 / iterations)
    slowest = torch.tensor(times_us, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    *ops_us, loop_us = slowest.tolist()
    ops_us.sort()
    return {
        "bytes": numel * 4,
        "time_us": loop_us,
        "time_us_min": ops_us[0],
        "time_us_p50": ops_us[math.ceil(len(ops_us) * 0.50) - 1],
        "time_us_p99": ops_us[math.ceil(len(ops_us) * 0.99) - 1],
        "wrong": int(wrong),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--store", required=True, help="path of a file that does not exist yet, the same on all ranks")
    parser.add_argument("--case", action="append", required=True, help="BYTES:ITERATIONS:WARMUP; may be repeated")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{arguments.store}", rank=arguments.rank, world_size=arguments.world_size
    )
    results = []
    for case in arguments.case:
        size_bytes, iterations, warmup = map(int, case.split(":"))
        results.append(measure(size_bytes // 4, iterations, warmup, arguments.rank, arguments.world_size))
    dist.destroy_process_group()
    if arguments.rank == 0:
        print(json.dumps({"torch": torch.__version__, "results": results}))


if __name__ == "__main__":
    main()
