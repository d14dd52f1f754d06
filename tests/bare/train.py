"""Trains a small model in DistributedDataParallel over Shoal, each rank on data of its own; says each step, and at the
end what the weights are."""

import hashlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import shoal

dist.init_process_group("shoal")
rank = dist.get_rank()
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.Generator().manual_seed(rank)
for step in range(int(sys.argv[1])):
    images = torch.randn(16, 64, generator=data)
    shown = images[:, :10].argmax(dim=1)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), shown).backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step}: {shoal.statistics()['ops_completed']} all-reduces so far", flush=True)
    time.sleep(0.05)  # a server is to be killed meanwhile
weights = b"".join(bytes(weight.detach().flatten().view(torch.uint8).tolist()) for weight in model.parameters())
print(f"rank {rank} has weights {hashlib.sha256(weights).hexdigest()}", flush=True)
dist.destroy_process_group()
