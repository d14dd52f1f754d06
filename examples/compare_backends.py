#!/usr/bin/env python3
"""Trains the GPT of train_gpt.py with several backends in turns, in one job, and times an all-reduce alone with each.

    torchrun --nproc-per-node 4 examples/compare_backends.py --text corpus.txt --steps 30 --rounds 3

Each contender has its own process group and its own copy of the model: same seed, same data, same steps. In every round
each trains a part of the steps, then reduces a tensor of --all-reduce-mib some times with nothing else going on; who
begins changes from round to round. So what the machine does meanwhile hits all of them alike. The weights that a
contender ends with are those of `train_gpt.py --steps` with that backend.
"""

import argparse
import datetime
import gc
import json
import pathlib
import time

import shoal  # noqa: F401  registers the backend
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train_gpt import Batches, Gpt, Watch, make_optimizer, shards, timed_all_reduce, train_step, weight_digest

CONTENDERS = ("shoal", "gloo")
WARM_UP_STEPS = 2  # in the first, DDP decides on its buckets; in the second, connections and memory are new to them
ALL_REDUCES = 3  # alone, in a round
REPORT_EVERY = 10
SEED = 1
LEARNING_RATE = 1e-3
BUCKET_MIB = 4
WIDTH, LAYERS, HEADS, CONTEXT = 192, 4, 6, 64


class Contender:
    """One backend with its model. All ranks call the same functions in the same order."""

    def __init__(self, name: str, group: dist.ProcessGroup, batches: Batches, arguments: argparse.Namespace) -> None:
        self.name = name
        self.group = group
        self.batches = batches
        self.arguments = arguments
        torch.manual_seed(SEED)
        self.model = Gpt(WIDTH, LAYERS, HEADS, CONTEXT)
        self.parallel = DistributedDataParallel(self.model, bucket_cap_mb=BUCKET_MIB, process_group=group)
        self.watch = Watch(group)
        self.parallel.register_comm_hook(self.watch, timed_all_reduce)
        self.optimizer = make_optimizer(self.parallel, LEARNING_RATE)
        self.losses = torch.zeros(arguments.steps)
        self.next_step = 0
        self.tokens_per_second: list[float] = []  # a round each
        self.all_reduce_ms: list[float] = []

    def meet(self) -> None:
        dist.all_reduce(torch.zeros(1), group=self.group)

    def train(self, steps: int) -> None:
        """A turn. What it says is rank 0's own loss."""
        self.meet()
        started = time.perf_counter()
        last = self.next_step + steps
        while self.next_step < last:
            self.losses[self.next_step] = train_step(self.parallel, self.optimizer, self.batches, self.next_step)
            self.next_step += 1
            if dist.get_rank() == 0 and (self.next_step == last or self.next_step % REPORT_EVERY == 0):
                loss = self.losses[self.next_step - 1].item()
                print(f"step {self.next_step:4}/{self.arguments.steps}  {self.name:5}  loss {loss:.4f}", flush=True)
        tokens = steps * self.arguments.batch * CONTEXT * dist.get_world_size()
        self.tokens_per_second.append(tokens / (time.perf_counter() - started))

    def reduce_alone(self, times: int) -> None:
        tensor = torch.rand(int(self.arguments.all_reduce_mib * 2**20) // 4)
        for _ in range(times):
            self.meet()
            started = time.perf_counter()
            dist.all_reduce(tensor, group=self.group)
            self.all_reduce_ms.append(1000 * (time.perf_counter() - started))

    def forget_measurements(self) -> None:
        self.tokens_per_second.clear()
        self.all_reduce_ms.clear()

    def summary(self) -> dict:
        digests = [None] * dist.get_world_size()
        dist.all_gather_object(digests, weight_digest(self.model), group=self.group)
        dist.all_reduce(self.losses, group=self.group)
        return {
            "tokens_per_second": self.tokens_per_second,
            "all_reduce_ms": self.all_reduce_ms,
            "losses": (self.losses / dist.get_world_size()).tolist(),
            "gradient_bytes_a_step": self.watch.bytes // self.arguments.steps,
            "digests": digests,
            "shards": shards(self.name),
        }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="text to train on, a file of 100 KB or more")
    parser.add_argument("--steps", type=int, default=30, help="training steps of each contender (default 30)")
    parser.add_argument("--rounds", type=int, default=3, help="in which the contenders take turns (default 3)")
    parser.add_argument("--batch", type=int, default=8, help="windows of text a rank and step (default 8)")
    parser.add_argument("--all-reduce-mib", type=float, default=8, help="size of the all-reduces alone (default 8 MiB)")
    parser.add_argument("--summary", type=pathlib.Path, help="write what was measured to this JSON file")
    arguments = parser.parse_args()
    if arguments.steps <= WARM_UP_STEPS or arguments.rounds < 1:
        parser.error(f"expected --steps of more than {WARM_UP_STEPS} (the warm-up) and --rounds of 1 or more")
    arguments.rounds = min(arguments.rounds, arguments.steps - WARM_UP_STEPS)
    return arguments


def take_turns(contenders: list[Contender], arguments: argparse.Namespace) -> None:
    for contender in contenders:
        contender.train(WARM_UP_STEPS)
        contender.reduce_alone(1)
        contender.forget_measurements()
    timed_steps = arguments.steps - WARM_UP_STEPS
    for number in range(arguments.rounds):
        steps = timed_steps * (number + 1) // arguments.rounds - timed_steps * number // arguments.rounds
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            contender.train(steps)
            contender.reduce_alone(ALL_REDUCES)


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("shoal", timeout=datetime.timedelta(minutes=5))
    rank = dist.get_rank()
    batches = Batches(arguments.text.read_bytes(), arguments.batch, CONTEXT, SEED, rank, torch.device("cpu"))
    groups = {"shoal": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    contenders = [Contender(name, groups[name], batches, arguments) for name in CONTENDERS]
    take_turns(contenders, arguments)
    summary = {contender.name: contender.summary() for contender in contenders}
    summary |= {"ranks": dist.get_world_size(), "steps": arguments.steps, "all_reduce_mib": arguments.all_reduce_mib}
    if rank == 0 and arguments.summary is not None:
        arguments.summary.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    dist.destroy_process_group()
    # DDP still holds the groups. Gloo's threads have to end before the interpreter does: torch aborts now and then if
    # not.
    del contenders, groups
    gc.collect()


if __name__ == "__main__":
    main()
