#!/usr/bin/env bash
# Gloo's all-reduce gives an element another sum in another place of the tensor. Each rank fills its tensor with one
# number, so all elements are sums of the same four numbers, but the result holds several values: each part of the tensor
# is added in an order of its own. In bfloat16, some parameters get a gradient of 256 where others get 260.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0
"$python" - "$folder" <<'EOF'
import sys, tempfile, warnings

warnings.simplefilter("ignore")
import torch
import torch.distributed as dist

RANKS = 4
CASES = [
    (torch.bfloat16, [256.0, 1.0, 1.0, 1.0], [256.0, 260.0]),  # the exact sum is 259
    (torch.float32, [1e8, 1.0, -1e8, 3.0], [0.0, 1.0, 3.0]),  # the exact sum is 4
]


def run(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    changed = False
    for dtype, numbers, expected in CASES:
        tensor = torch.full((1000,), numbers[rank], dtype=dtype)
        dist.all_reduce(tensor)
        seen = torch.unique(tensor).tolist()
        if rank == 0:
            print(f"{dtype}: {' + '.join(map(str, numbers))} in all places gives {seen}", flush=True)
        changed = changed or seen != expected
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(f"changed: expected {[expected for *_, expected in CASES]}" if changed else 0)


print("torch", torch.__version__, flush=True)
torch.multiprocessing.start_processes(
    run, args=(tempfile.mktemp(dir=sys.argv[1]),), nprocs=RANKS, start_method="fork", join=True
)
EOF
