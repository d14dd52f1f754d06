#!/usr/bin/env python3
"""What the pods of the cluster test train: a small model by DistributedDataParallel, on data drawn from a seed.

It prints a line for each step, `step NUMBER TIME SECONDS`, and at its end `digest HEX after NUMBER steps`, which is of
the model's parameters: the same on all ranks, and the same for as many steps, whatever happened to servers meanwhile.
It ends after --steps, or on all ranks together when rank 0 finds the file --until.
"""

import argparse
import hashlib
import pathlib
import time

import shoal  # noqa: F401 (registers the backend)
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 16
WIDTH = 512


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument("--steps", type=int, help="end after as many")
    ends.add_argument("--until", type=pathlib.Path, help="end when rank 0 finds this file")
    parser.add_argument("--compute-ms", type=float, default=0.0, help="what a step takes besides, as on a larger model")
    return parser.parse_args()


def is_last(step: int, arguments: argparse.Namespace) -> bool:
    """Agreed by all ranks, since an all-reduce has to be called by all or none."""
    found = arguments.until is not None and dist.get_rank() == 0 and arguments.until.exists()
    flag = torch.tensor([int(found)])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag.item()) or step + 1 == arguments.steps


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("shoal")
    torch.manual_seed(1)
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    drawn = torch.Generator().manual_seed(1000 + dist.get_rank())
    step = -1
    last = False
    while not last:
        step += 1
        began = time.monotonic()
        inputs = torch.randn(BATCH, WIDTH, generator=drawn)
        loss = (model(inputs).squeeze(1) - inputs.sum(dim=1).tanh()).square().mean()
        if not loss.isfinite():  # all digests of NaN are equal
            raise FloatingPointError(f"the loss of step {step} is {loss.item()}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = is_last(step, arguments)
        if dist.get_rank() == 0:
            print(f"step {step} {time.time():.3f} {time.monotonic() - began:.4f}", flush=True)
        time.sleep(arguments.compute_ms / 1000)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print(f"digest {digest.hexdigest()} after {step + 1} steps", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
