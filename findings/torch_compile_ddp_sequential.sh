#!/usr/bin/env bash
# torch.compile of a model in DistributedDataParallel compiles nothing, and says nothing, if the model is a
# torch.nn.Sequential itself. The same layers in a class of one's own are compiled, and so is the Sequential if it is
# compiled before DistributedDataParallel gets it.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0
"$python" - "$folder" <<'EOF'
import sys, tempfile, warnings

warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

store = dist.FileStore(tempfile.mktemp(dir=sys.argv[1]), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)


def layers():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, inputs):
        return self.layers(inputs)


def graphs(make):
    """That are compiled in three training steps of the model that `make` makes with a compiler."""
    count = 0

    def compiler(graph, _):
        nonlocal count
        count += 1
        return graph.forward

    torch._dynamo.reset()
    model = make(lambda module: torch.compile(module, backend=compiler))
    for _ in range(3):
        model(torch.ones(2, 8)).sum().backward()
    return count


seen = {
    "compile(Sequential)": graphs(lambda compiled: compiled(layers())),
    "compile(DDP(Own))": graphs(lambda compiled: compiled(DistributedDataParallel(Own()))),
    "DDP(compile(Sequential))": graphs(lambda compiled: DistributedDataParallel(compiled(layers()))),
    "compile(DDP(Sequential))": graphs(lambda compiled: compiled(DistributedDataParallel(layers()))),
}
print("torch", torch.__version__)
for model, count in seen.items():
    print(f"{model:26} compiles {count} graphs")
dist.destroy_process_group()
sys.exit(None if list(seen.values()) == [1, 1, 1, 0] else "changed: expected 1, 1, 1 and 0 graphs")
EOF
