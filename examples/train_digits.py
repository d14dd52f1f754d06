#!/usr/bin/env python3
"""Trains a small network on real images, the 1797 handwritten digits that scikit-learn ships, in one of three ways.

    torchrun --nproc-per-node 4 examples/train_digits.py --parallel hsdp --shards 2

  ddp    every rank has the whole model; gradients are all-reduced
  fsdp   the ranks share the model (FSDP2); gradients are reduce-scattered, which Shoal leaves to Gloo or NCCL
  hsdp   groups of --shards ranks share the model, and the groups are replicas of each other: gradients are
         reduce-scattered in a group, as a rule within a node, and all-reduced between the groups, through Shoal

Each rank takes its part of every batch, so that all three compute the same gradients but for rounding. The model at the
start and the order of the images are those of the seed. Needs scikit-learn. Writes nothing but --summary.
"""

import argparse
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

HELD_BACK = 297  # images that are not trained on, of which the accuracy is


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="shoal", help="shoal (default), gloo or nccl")
    parser.add_argument("--parallel", choices=["ddp", "fsdp", "hsdp"], default="ddp")
    parser.add_argument("--shards", type=int, default=2, help="hsdp: ranks that share one model (default 2)")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=60, help="images a step, of all ranks together (default 60)")
    parser.add_argument("--width", type=int, default=256, help="of the hidden layers (default 256)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--summary", type=pathlib.Path, help="write what came of it to this JSON file")
    return parser.parse_args()


def load_digits(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, as rows of 64 numbers from 0 to 1, and what they show."""
    try:
        from sklearn import datasets
    except ImportError:
        sys.exit("train_digits: the images come with scikit-learn: pip install scikit-learn")
    digits = datasets.load_digits()
    return torch.tensor(digits.data / 16, dtype=torch.float32).to(device), torch.tensor(digits.target).to(device)


def make_model(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(nn.Linear(64, width), nn.ReLU()),
        nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 10),
    )


def parallelize(model: nn.Sequential, arguments: argparse.Namespace) -> nn.Module:
    world_size = dist.get_world_size()
    if arguments.parallel == "ddp":
        return DistributedDataParallel(model)
    if arguments.parallel == "fsdp":
        mesh = init_device_mesh(arguments.device, (world_size,))
    else:
        # Ranks of a node have numbers in a row, so the shards of a model are on one node where its ranks are enough.
        shape = (world_size // arguments.shards, arguments.shards)
        mesh = init_device_mesh(arguments.device, shape, mesh_dim_names=("replicate", "shard"))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model: nn.Module, images: torch.Tensor, shown: torch.Tensor, arguments: argparse.Namespace) -> list[float]:
    """The mean loss of all ranks, by step."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    order = torch.Generator().manual_seed(arguments.seed)
    losses = []
    for _ in range(arguments.epochs):
        for batch in torch.randperm(len(images), generator=order).split(arguments.batch):
            if len(batch) < arguments.batch:
                break
            own = batch[rank::world_size].to(images.device)
            loss = functional.cross_entropy(model(images[own]), shown[own])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().double()  # whatever the wire does to float32
            dist.all_reduce(total)
            losses.append(total.item() / world_size)
    return losses


def main() -> None:
    arguments = parse_arguments()
    if arguments.backend == "shoal":
        import shoal  # registers the backend
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    dist.init_process_group(arguments.backend)
    world_size = dist.get_world_size()
    if arguments.parallel == "hsdp" and world_size % arguments.shards != 0:
        sys.exit(f"train_digits: {world_size} ranks can't be groups of --shards {arguments.shards}")
    if arguments.batch % world_size != 0:
        sys.exit(f"train_digits: --batch {arguments.batch} has no equal parts for {world_size} ranks")
    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device)
    images, shown = load_digits(device)
    model = parallelize(make_model(arguments.width).to(device), arguments)
    losses = train(model, images[HELD_BACK:], shown[HELD_BACK:], arguments)

    with torch.no_grad():
        guessed = model(images[:HELD_BACK]).argmax(dim=1)
        accuracy = (guessed == shown[:HELD_BACK]).float().mean().item()
        whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in model.parameters()]
        norm = sum(each.double().square().sum() for each in whole).sqrt().item()
    if dist.get_rank() == 0:
        read_right = f"{100 * accuracy:.1f} % of {HELD_BACK} other images are read right"
        way = f"{arguments.parallel} over {arguments.backend}, {world_size} ranks"
        print(f"{way}: loss {losses[0]:.3f} to {losses[-1]:.3f}, {read_right}", flush=True)
        if arguments.summary is not None:
            summary = {"losses": losses, "accuracy": accuracy, "norm": norm}
            if arguments.backend == "shoal":
                summary["statistics"] = shoal.statistics()
            arguments.summary.write_text(json.dumps(summary))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
