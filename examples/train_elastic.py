#!/usr/bin/env python3
"""Trains a small network with torchft over Shoal: replicas die and come, and the others train on.

    shoal-scheduler --listen 127.0.0.1:7700 &                 # once for the cluster; it outlives all replicas
    shoal-server --scheduler 127.0.0.1:7700 &                 # on each node that sums gradients
    torchft_lighthouse --bind 127.0.0.1:29510 --min_replicas 1 &  # once for the job: says who trains
    export SHOAL_SCHEDULER=127.0.0.1:7700 SHOAL_JOB_NAME=elastic TORCHFT_LIGHTHOUSE=http://127.0.0.1:29510
    python3 examples/train_elastic.py --replica a &           # each in a terminal, container or node of its own
    python3 examples/train_elastic.py --replica b

Kill a replica at any moment: the others lose one step at most. Start it again: it takes the weights of another one and
trains along. All replicas have the same weights after every step, and say so at the end by a digest.
"""

import argparse
import datetime
import hashlib
import os
import sys
import time
import zlib

import torch
import torch.distributed as dist
from torch import nn

import torchft
from shoal.torchft import ProcessGroupShoal

TIMEOUT = datetime.timedelta(seconds=60)
WIDTH = 64


def average_gradients(manager: torchft.Manager, model: nn.Module) -> None:
    """One all-reduce for all of them. With torchft's nightly builds torchft.DistributedDataParallel(manager, model)
    reduces in buckets while the backward pass runs; that of torchft 0.2.0 ends the replicas that are left."""
    gradients = [parameter.grad for parameter in model.parameters()]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    manager.allreduce(together).wait()  # an error is the manager's: it does not commit the step
    for gradient, part in zip(gradients, together.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replica", required=True, help="who this is: the same name again when it is started again")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps are to be committed")
    parser.add_argument("--min-replicas", type=int, default=1, help="fewer than so many wait for others")
    parser.add_argument("--step-ms", type=float, default=50, help="what a step computes, on top of what it does")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    teacher = nn.Linear(WIDTH, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def state() -> dict:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(state: dict) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    # A replica of several ranks has a store of all of them here, RANK and WORLD_SIZE.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = ProcessGroupShoal(timeout=TIMEOUT, identity=f"replica {options.replica}")
    manager = torchft.Manager(
        pg=group, replica_id=options.replica, min_replica_size=options.min_replicas, load_state_dict=load,
        state_dict=state, timeout=TIMEOUT, rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port,
    )  # fmt: skip
    managed = torchft.Optimizer(manager, optimizer)
    while manager.current_step() < options.steps:
        step = manager.current_step()
        managed.zero_grad()  # and asks the lighthouse who takes part
        data = torch.Generator().manual_seed(zlib.crc32(f"{options.replica} {step}".encode()))
        inputs = torch.randn(32, WIDTH, generator=data)
        with torch.no_grad():
            wanted = teacher(inputs)
        loss = nn.functional.mse_loss(model(inputs), wanted)
        time.sleep(options.step_ms / 1000)
        loss.backward()
        average_gradients(manager, model)
        managed.step()  # if all went well on all replicas
        replicas = manager.num_participants()
        if manager.current_step() == step:
            print(f"step {step} is repeated: {manager.errored()}", flush=True)
        elif step % 20 == 0 or step + 1 == options.steps:
            print(f"step {step} loss {loss.item():.5f} of {replicas} replicas", flush=True)
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"replica {options.replica} weights sha256 {hashlib.sha256(weights).hexdigest()}", flush=True)
    group.shutdown()
    os._exit(0)  # torchft's server threads would keep the process


if __name__ == "__main__":
    sys.exit(main())
