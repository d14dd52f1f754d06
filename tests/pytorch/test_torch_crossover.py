"""Small all-reduces that the inner backend takes: which, that all ranks choose alike, and where the limit comes
from."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from rank_processes import run_ranks

import shoal

RANKS = 3


def count_on_servers() -> dict[str, int]:
    """How many of these all-reduces went to the servers."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    counts = {}

    def reduce(name: str, tensor: torch.Tensor, op=dist.ReduceOp.SUM, expected: float | None = None) -> None:
        before = shoal.statistics()["ops_completed"]
        dist.all_reduce(tensor, op=op)
        counts[name] = shoal.statistics()["ops_completed"] - before
        assert (tensor == (ranks * (ranks + 1) / 2 if expected is None else expected)).all(), (name, tensor)

    reduce("below", torch.full((255,), rank + 1.0))
    reduce("at the limit", torch.full((256,), rank + 1.0))
    reduce("above", torch.full((5000,), rank + 1.0))
    reduce("below, double", torch.full((127,), rank + 1.0, dtype=torch.float64))
    reduce("at the limit, double", torch.full((128,), rank + 1.0, dtype=torch.float64))
    # What Gloo does not reduce goes to the servers whatever its size.
    reduce("average", torch.full((4,), rank + 1.0), dist.ReduceOp.AVG, (ranks + 1) / 2)
    reduce("int16", torch.full((4,), rank + 1, dtype=torch.int16))
    return counts


EXPECTED = {
    "below": 0,
    "at the limit": 1,
    "above": 1,
    "below, double": 0,
    "at the limit, double": 1,
    "average": 1,
    "int16": 1,
}


def test_all_reduces_below_the_limit_go_to_the_inner_backend(cluster):
    environment = cluster.environment(SHOAL_INNER_BELOW="1K")
    assert run_ranks(RANKS, count_on_servers, environment=environment) == [EXPECTED] * RANKS


def test_the_calibration_writes_a_file_that_the_next_job_takes(cluster, tmp_path):
    written = tmp_path / "limits"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    command += ["-m", "shoal.calibrate", "--output", str(written), "--repeats", "3"]
    environment = os.environ | cluster.environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "cpu=" in written.read_text() and "cpu=" in done.stdout
    written.write_text("cpu=1024\n")
    environment = cluster.environment(SHOAL_INNER_BELOW=str(written))
    assert run_ranks(RANKS, count_on_servers, environment=environment) == [EXPECTED] * RANKS
