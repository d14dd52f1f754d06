#!/usr/bin/env bash
# Gloo averages float16 by summing in float16 and dividing then. The average of values that are all 40000 is infinite,
# though it is a float16, and nothing is raised. The same average of bfloat16, which has the range of float32, is right.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0

cat > "$folder/average.py" <<'EOF'
import sys, torch, torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
for dtype in (torch.float16, torch.bfloat16):
    tensor = torch.full((3,), 40000.0, dtype=dtype)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    if rank == 0:
        print(f"average of 40000 and 40000 in {dtype}: {tensor.tolist()}")
EOF
"$python" "$folder/average.py" 1 "$folder/meeting" &
"$python" -c 'import torch; print("torch", torch.__version__)'
"$python" "$folder/average.py" 0 "$folder/meeting" | tee "$folder/seen"
[ "$(grep -c "torch.float16: .inf, inf, inf.\|torch.bfloat16: .39936.0" "$folder/seen")" = 2 ] ||
  { echo "changed" >&2 && exit 1; }
