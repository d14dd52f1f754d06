"""One rank of an all-reduce of torch.distributed, timed and checked as shoal-perf does it. Started by torch_ranks.py.

Reads cases, one JSON object a line, until its input ends; rank 0 answers each with a JSON object, and says before that
that all ranks are there. In between it sleeps.
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
STEP = "step"
REPLICAS = "replicas"
# Of the tensors that are measured, 25 MiB, four buckets: large enough for the link, and more than one.
DEFAULT_BUCKET_MIB = 6.5


def cpu_time_us() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def small_integers(numel: int, rank: int, tensor: int) -> torch.Tensor:
    """-2 .. 2: sums of these are exact in any order."""
    generator = torch.Generator().manual_seed(1000 * (tensor + 1) + rank)
    return torch.randint(-2, 3, (numel,), generator=generator).to(torch.float32)


def check(numel: int, in_flight: int, rank: int, group: dist.ProcessGroup) -> int:
    """Wrong elements over all ranks."""
    tensors = [small_integers(numel, rank, k) for k in range(in_flight)]
    for work in [dist.all_reduce(tensor, async_op=True, group=group) for tensor in tensors]:
        work.wait()
    wrong = 0
    for k, tensor in enumerate(tensors):
        expected = torch.zeros(numel)
        for other in dist.get_process_group_ranks(group):
            expected += small_integers(numel, other, k)
        wrong += int((tensor != expected).sum())
    total = torch.tensor([wrong], dtype=torch.int64)
    dist.all_reduce(total)
    return int(total)


class AddProduct(torch.autograd.Function):
    """so_far + weight * inputs, summed. It sleeps where a GPU would compute."""

    @staticmethod
    def forward(ctx, so_far, weight, inputs, forward_s, backward_s):
        ctx.save_for_backward(inputs)
        ctx.backward_s = backward_s
        sleep(forward_s)
        return so_far + torch.dot(weight, inputs)

    @staticmethod
    def backward(ctx, gradient):
        sleep(ctx.backward_s)
        return gradient, gradient * ctx.saved_tensors[0], None, None, None


def sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


class Products(torch.nn.Module):
    """Layers whose parameters' gradients are their inputs: a model that costs next to nothing beside the exchange of
    gradients, but for the time that its layers sleep."""

    def __init__(self, numel: int, layers: int, backward_s: float):
        super().__init__()
        self.backward_s = backward_s / layers
        sizes = [numel // layers + (i < numel % layers) for i in range(layers)]
        self.layers = torch.nn.ParameterList([torch.zeros(size) for size in sizes if size > 0])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for weight, part in zip(self.layers, self.split(inputs)):
            total = AddProduct.apply(total, weight, part, self.backward_s / 2, self.backward_s)
        return total

    def split(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return inputs.split([weight.numel() for weight in self.layers])


def keep_own_gradients(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """In place of the exchange: what is left is the time of torch itself. DDP divides gradients by the number of ranks
    before it exchanges them, but leaves that to a hook if there is one."""
    done = torch.futures.Future()
    done.set_result(bucket.buffer().div_(dist.get_world_size()))
    return done


def check_ddp(model: torch.nn.Module, numel: int, rank: int, world_size: int, exchanges: bool) -> int:
    """Wrong elements over all ranks. The first step, in which DDP reduces the whole model at once, is this one, so
    it is not measured."""
    model.zero_grad()
    model(small_integers(numel, rank, 0)).backward()
    if exchanges:
        expected = sum(small_integers(numel, other, 0) for other in range(world_size)) / world_size
    else:
        expected = small_integers(numel, rank, 0) / world_size
    gradients = torch.cat([weight.grad for weight in model.module.layers])
    total = torch.tensor([int((gradients != expected).sum())], dtype=torch.int64)
    dist.all_reduce(total)
    return int(total)


def loop_ddp(count: int, model: torch.nn.Module, inputs: torch.Tensor) -> list[float]:
    """Of each backward pass, which all ranks begin at once, also those that exchange nothing."""
    times_us = []
    for _ in range(count):
        loss = model(inputs)
        dist.barrier()
        start = time.perf_counter()
        loss.backward()
        times_us.append((time.perf_counter() - start) * 1e6)
    return times_us


def loop_steps(count: int, model: torch.nn.Module, inputs: torch.Tensor) -> list[float]:
    times_us = []
    for _ in range(count):
        start = time.perf_counter()
        model(inputs).backward()
        times_us.append((time.perf_counter() - start) * 1e6)
    return times_us


def loop(count: int, tensors: list[torch.Tensor], group: dist.ProcessGroup) -> list[float]:
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
            flying[k] = (dist.all_reduce(tensors[k], async_op=True, group=group), start)
    return times_us


def measure(case: dict, rank: int, group: dist.ProcessGroup, mode: str, layers: int) -> dict:
    numel = max(1, case["size_bytes"] // 4)
    if mode not in (ALL_REDUCE, REPLICAS):
        model = torch.nn.parallel.DistributedDataParallel(
            Products(numel, layers, case["backward_s"]),
            gradient_as_bucket_view=True,
            bucket_cap_mb=case["size_bytes"] / layers / 2**20 if mode == STEP else DEFAULT_BUCKET_MIB,
        )
        if mode == DDP_ALONE:
            model.register_comm_hook(None, keep_own_gradients)
        wrong = check_ddp(model, numel, rank, dist.get_world_size(), exchanges=mode != DDP_ALONE)
        inputs = torch.rand(numel)
        run = functools.partial(loop_steps if mode == STEP else loop_ddp, model=model, inputs=inputs)
    else:
        wrong = check(numel, case["in_flight"], rank, group)
        # In place and over and over, as shoal-perf does: the numbers grow to infinity, which costs no time.
        run = functools.partial(loop, tensors=[torch.rand(numel) for _ in range(case["in_flight"])], group=group)
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


def own_group(rank: int, world_size: int, ranks_per_node: int) -> dist.ProcessGroup:
    """Of the ranks with the same local index: one of each node. All groups are made by all ranks."""
    groups = [dist.new_group(list(range(local, world_size, ranks_per_node))) for local in range(ranks_per_node)]
    return groups[rank % ranks_per_node]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--store", required=True, help="path of a file that does not exist yet, the same on all ranks")
    parser.add_argument("--layers", type=int, required=True, help="of a model")
    parser.add_argument("--backend", choices=("gloo", "shoal"), required=True)
    parser.add_argument(
        "--mode",
        choices=(ALL_REDUCE, DDP, DDP_ALONE, STEP, REPLICAS),
        default=ALL_REDUCE,
        help="time all-reduces, or backward passes of a model; ddp-alone: of ranks that don't exchange their gradients;"
        " step: whole training steps; replicas: all-reduces of the ranks with the same index on their nodes",
    )
    parser.add_argument("--ranks-per-node", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.backend == "shoal":
        import shoal  # noqa: F401 registers the backend
    store = dist.FileStore(arguments.store, arguments.world_size)
    dist.init_process_group(arguments.backend, store=store, rank=arguments.rank, world_size=arguments.world_size)
    group = dist.group.WORLD
    if arguments.mode == REPLICAS:
        group = own_group(arguments.rank, arguments.world_size, arguments.ranks_per_node)
    dist.all_reduce(torch.zeros(1))
    if arguments.rank == 0:
        print(json.dumps("all ranks are there"), flush=True)
    for line in sys.stdin:
        answer = measure(json.loads(line), arguments.rank, group, arguments.mode, arguments.layers)
        if arguments.rank == 0:
            print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
