"""One rank of an all-reduce of torch.distributed, timed and checked as shoal-perf does it. Started by torch_ranks.py.

Reads cases, one JSON object a line, until its input ends; rank 0 answers each with a JSON object. In between it sleeps.
"""

import argparse
import functools
import json
import resource
import sys
import time

import torch
import torch.distributed as dist

ALL_REDUCE = "all-reduce"
DDP = "ddp"
DDP_ALONE = "ddp-alone"


def cpu_time_us() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def small_integers(numel: int, rank: int, tensor: int) -> torch.Tensor:
    """-2 .. 2: sums of these are exact in any order."""
    generator = torch.Generator().manual_seed(1000 * (tensor + 1) + rank)
    return torch.randint(-2, 3, (numel,), generator=generator).to(torch.float32)


def check(numel: int, in_flight: int, rank: int, world_size: int) -> int:
    """Wrong elements over all ranks."""
    tensors = [small_integers(numel, rank, k) for k in range(in_flight)]
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        work.wait()
    wrong = 0
    for k, tensor in enumerate(tensors):
        expected = torch.zeros(numel)
        for other in range(world_size):
            expected += small_integers(numel, other, k)
        wrong += int((tensor != expected).sum())
    total = torch.tensor([wrong], dtype=torch.int64)
    dist.all_reduce(total)
    return int(total)


class Product(torch.nn.Module):
    """Its parameter's gradient is its input: a model that costs next to nothing beside the exchange of gradients."""

    def __init__(self, numel: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(numel))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.dot(self.weight, inputs)


def keep_own_gradients(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """In place of the exchange: what is left is the time of torch itself."""
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def check_ddp(model: torch.nn.Module, numel: int, rank: int, world_size: int, exchanges: bool) -> int:
    """Wrong elements over all ranks."""
    model.zero_grad()
    model(small_integers(numel, rank, 0)).backward()
    if exchanges:
        expected = sum(small_integers(numel, other, 0) for other in range(world_size)) / world_size
    else:
        expected = small_integers(numel, rank, 0)
    total = torch.tensor([int((model.module.weight.grad != expected).sum())], dtype=torch.int64)
    dist.all_reduce(total)
    return int(total)


def loop_ddp(count: int, model: torch.nn.Module, inputs: torch.Tensor) -> list[float]:
    times_us = []
    for _ in range(count):
        loss = model(inputs)
        start = time.perf_counter()
        loss.backward()
        times_us.append((time.perf_counter() - start) * 1e6)
    return times_us


def loop(count: int, tensors: list[torch.Tensor]) -> list[float]:
    """Keeps one all-reduce of each tensor going until `count` are done; gives the time of each."""
    flying: list[tuple[dist.Work, float] | None] = [None] * len(tensors)
    times_us = []
    for i in range(count + len(tensors)):
        k = i % len(tensors)
        if flying[k] is not None:
            work, start = flying[k]
            work.wait()
            times_us.append((time.perf_counter() - start) * 1e6)
            flying[k] = None
        if i < count:
            start = time.perf_counter()
            flying[k] = (dist.all_reduce(tensors[k], async_op=True), start)
    return times_us


def measure(case: dict, rank: int, world_size: int, mode: str) -> dict:
    numel = max(1, case["size_bytes"] // 4)
    if mode != ALL_REDUCE:
        model = torch.nn.parallel.DistributedDataParallel(Product(numel), gradient_as_bucket_view=True)
        if mode == DDP_ALONE:
            model.register_comm_hook(None, keep_own_gradients)
        wrong = check_ddp(model, numel, rank, world_size, exchanges=mode == DDP)
        inputs = torch.rand(numel)
        run = functools.partial(loop_ddp, model=model, inputs=inputs)
    else:
        wrong = check(numel, case["in_flight"], rank, world_size)
        # In place and over and over, as shoal-perf does: the numbers grow to infinity, which costs no time.
        run = functools.partial(loop, tensors=[torch.rand(numel) for _ in range(case["in_flight"])])
    run(case["warmup"])
    dist.all_reduce(torch.zeros(1))
    cpu_start_us = cpu_time_us()
    loop_start = time.perf_counter()
    times_us = run(case["iterations"])
    times_us.append((time.perf_counter() - loop_start) * 1e6 / case["iterations"])
    cpu = torch.tensor([(cpu_time_us() - cpu_start_us) / case["iterations"]], dtype=torch.float64)
    slowest = torch.tensor(times_us, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    dist.all_reduce(cpu)
    *op_times_us, loop_us = slowest.tolist()
    return {"op_times_us": op_times_us, "time_us": loop_us, "cpu_time_us": float(cpu), "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--store", required=True, help="path of a file that does not exist yet, the same on all ranks")
    parser.add_argument("--backend", choices=("gloo", "shoal"), required=True)
    parser.add_argument(
        "--mode",
        choices=(ALL_REDUCE, DDP, DDP_ALONE),
        default=ALL_REDUCE,
        help="time all-reduces, or backward passes of a model; ddp-alone: of ranks that don't exchange their gradients",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.backend == "shoal":
        import shoal  # noqa: F401 registers the backend
    store = dist.FileStore(arguments.store, arguments.world_size)
    dist.init_process_group(arguments.backend, store=store, rank=arguments.rank, world_size=arguments.world_size)
    for line in sys.stdin:
        answer = measure(json.loads(line), arguments.rank, arguments.world_size, arguments.mode)
        if arguments.rank == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
