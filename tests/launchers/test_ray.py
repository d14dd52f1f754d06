"""Ranks that Ray Train starts, on a node with nothing but a loopback device. Ray is installed into an environment of
its own (build/ray, 650 MB), beside the torch of build/venv."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from recipes import ROOT, SCHEDULER, TRAIN, end_well, found_by, recipe

from hosts.cluster import Cluster
from hosts.network import make_one_node

RAY = "ray[train]==2.60.0"
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root"),
]


@pytest.fixture(scope="module")
def python() -> pathlib.Path:
    """Of an environment that is made once."""
    folder = ROOT / "build/ray"
    if not folder.exists():
        half_made = folder.with_suffix(".new")
        shutil.rmtree(half_made, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", half_made], check=True, timeout=120)
        done = subprocess.run([half_made / "bin/python", "-m", "pip", "install", "--quiet", RAY], check=False,
                              capture_output=True, text=True, timeout=600)  # fmt: skip
        if done.returncode != 0:
            pytest.skip(f"Ray can't be installed: {done.stderr[-300:]}")
        [packages] = half_made.glob("lib/python3*/site-packages")
        torch = pathlib.Path(sys.executable).parents[1] / packages.relative_to(half_made)
        (packages / "torch.pth").write_text(str(torch), encoding="utf-8")
        half_made.rename(folder)
    return folder / "bin/python"


def test_ranks_of_ray_meet_on_their_node_as_the_page_says(python, tmp_path):
    script = tmp_path / "train.py"
    # It has more cores than this machine, so that the recipe fits.
    text = recipe("Ray Train").replace("ray.init(", "ray.init(num_cpus=6, ")
    with make_one_node(1, 1) as network, Cluster(network) as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.start_scheduler()
        cluster.launch_server().listens_at()
        text = text.replace(SCHEDULER, cluster.scheduler_address)
        script.write_text(f"def train():\n    exec({TRAIN!r}, {{}})\n\n\n{text}", encoding="utf-8")
        settings = {
            "SHOAL_NODE_REDUCE": "auto",
            "HOME": str(tmp_path),
            "RAY_TMPDIR": folder,  # short: it has Unix sockets
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        ranks = found_by(end_well(cluster.start([python, script], settings), 300))
    by_number = {rank["rank"]: rank for rank in ranks}  # Ray shows lines more than once
    assert sorted(by_number) == [0, 1] and {rank["world_size"] for rank in ranks} == {2}
    assert {rank["backend"] for rank in ranks} == {"shoal"}
    assert [by_number[number]["LOCAL_RANK"] for number in (0, 1)] == ["0", "1"]
    assert {(rank["LOCAL_WORLD_SIZE"], rank["SHOAL_JOB_NAME"]) for rank in ranks} == {("2", "train")}
    assert all(rank["bytes_on_node"] > 0 and rank["bytes_pushed"] == 0 for rank in ranks)
