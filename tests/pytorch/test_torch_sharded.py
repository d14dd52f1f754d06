"""FSDP2 and HSDP, by the example that trains on real images: the course is that of DistributedDataParallel and of Gloo,
and the gradients of HSDP's replicas go through the servers."""

import json
import pathlib
import subprocess

import pytest
from torch_cluster import TORCHRUN, Cluster, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 25  # of one epoch
LAYERS = 3  # each is sharded, and reduced, by itself


@pytest.fixture(scope="module")
def train(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("digits")

    def run(parallel: str, backend: str = "shoal") -> dict:
        summary = folder / f"{parallel}-{backend}.json"
        command = [
            *TORCHRUN, "--nproc-per-node", "4", str(ROOT / "examples/train_digits.py"), "--parallel", parallel,
            "--backend", backend, "--epochs", "1", "--summary", str(summary),
        ]  # fmt: skip
        ended = subprocess.run(
            command, env=clean_environment(**cluster.environment()), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(summary.read_text())

    return run


@pytest.fixture(scope="module")
def control(train) -> dict:
    """With every gradient all-reduced whole, and by Gloo."""
    return train("ddp", "gloo")


def test_a_model_that_all_ranks_share_learns_the_same(train, control):
    shared = train("fsdp")
    assert shared["losses"] == pytest.approx(control["losses"], abs=1e-5)
    assert shared["losses"][-1] < 0.6 * shared["losses"][0]
    assert shared["statistics"]["ops_completed"] == STEPS, "the losses alone: reduce-scatter is Gloo's"


def test_replicas_of_a_shared_model_are_reduced_through_the_servers(train, control):
    replicas = train("hsdp")
    assert replicas["losses"] == pytest.approx(control["losses"], abs=1e-5)
    assert replicas["statistics"]["ops_completed"] == STEPS * (1 + LAYERS)
    assert replicas["statistics"]["bytes_pushed"] > 0
    assert replicas["norm"] == pytest.approx(control["norm"], rel=1e-5)
