"""`torchrun ... -m shoal.calibrate --output FILE`: finds the size from which servers beat the inner backend.

Run it on all ranks of a job like the real one, on the same cluster. Each size is all-reduced by both, in turns, and the
median of the slowest rank counts. Rank 0 prints the table and writes FILE, for SHOAL_INNER_BELOW.
"""

import argparse
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

import shoal  # noqa: F401  registers the backend
from shoal import delegation

SIZES = [4**power for power in range(1, 12)]  # 4 B to 4 MiB
WARM_UP = 5
REPEATS = 30


def time_all_reduce(group: dist.ProcessGroup, tensor: torch.Tensor) -> float:
    """The seconds that one all-reduce takes on this rank."""
    begin = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def slowest_median(times: list[float]) -> float:
    median = torch.tensor([statistics.median(times)], dtype=torch.float64)
    dist.all_reduce(median, op=dist.ReduceOp.MAX)
    return median.item()


def measure(groups: dict[str, dist.ProcessGroup], device: str, repeats: int) -> list[tuple[int, dict[str, float]]]:
    """For each size, the seconds by group."""
    rows = []
    for size in SIZES:
        tensor = torch.zeros(size // 4, device=device)
        times: dict[str, list[float]] = {name: [] for name in groups}
        for number in range(WARM_UP + repeats):
            for name, group in groups.items():
                seconds = time_all_reduce(group, tensor)
                if number >= WARM_UP:
                    times[name].append(seconds)
        rows.append((size, {name: slowest_median(of_name) for name, of_name in times.items()}))
    return rows


def crossover(rows: list[tuple[int, dict[str, float]]]) -> int:
    """The smallest size from which on the servers are never slower than the inner backend; 0: they are never slower."""
    below = 0
    for size, seconds in rows:
        if seconds["inner"] < seconds["shoal"]:
            below = 4 * size  # the next larger size, as nothing was measured in between
    return below


def main() -> int:
    parser = argparse.ArgumentParser(prog="shoal.calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, required=True, help="file to write, for SHOAL_INNER_BELOW")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="all-reduces of each size (default %(default)s)")
    arguments = parser.parse_args()
    dist.init_process_group("shoal", init_method="shoal://?inner_below=0")
    limits, comments = {}, [f"{dist.get_world_size()} ranks; bytes: seconds through the servers, by the inner backend"]
    inner_of = {"cpu": "gloo", "cuda": "nccl"} if torch.cuda.is_available() else {"cpu": "gloo"}
    for device, inner in inner_of.items():
        groups = {"shoal": dist.group.WORLD, "inner": dist.new_group(backend=inner)}
        rows = measure(groups, device, arguments.repeats)
        limits[device] = crossover(rows)
        comments += [f"{device} {size}: {row['shoal']:.6f} {row['inner']:.6f}" for size, row in rows]
    if dist.get_rank() == 0:
        text = delegation.format_limits(delegation.Limits(**limits), comments)
        arguments.output.write_text(text, encoding="utf-8")
        print(text, end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
