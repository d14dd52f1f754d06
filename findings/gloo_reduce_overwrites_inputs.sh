#!/usr/bin/env bash
# dist.reduce to rank 0 over Gloo overwrites the tensors of the other ranks, too: a part of each becomes the whole sum,
# and others become sums of some ranks. A rank that goes on with what it has contributed goes on with something else.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0
"$python" - "$folder" <<'EOF'
import sys, tempfile, warnings

warnings.simplefilter("ignore")
import torch
import torch.distributed as dist

RANKS = 4


def run(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, RANKS), rank=rank, world_size=RANKS)
    own = 10.0**rank  # so each digit of a sum says which rank is in it
    tensor = torch.full((8,), own)
    dist.reduce(tensor, dst=0)
    for each in range(RANKS):
        if each == rank:
            print(f"rank {rank} had {own:g} in all places, and has {[int(x) for x in tensor.tolist()]}", flush=True)
        dist.barrier()
    dist.destroy_process_group()
    whole = 1111.0
    as_found = bool((tensor == whole).all()) if rank == 0 else len(torch.unique(tensor)) > 2 and whole in tensor
    sys.exit(0 if as_found else "changed: expected the sum on rank 0, and parts of it in the tensors of the others")


print("torch", torch.__version__, flush=True)
torch.multiprocessing.start_processes(
    run, args=(tempfile.mktemp(dir=sys.argv[1]),), nprocs=RANKS, start_method="fork", join=True
)
EOF
