"""Ranks that OpenMPI's mpirun starts."""

import os
import shutil
import sys

import pytest
from recipes import SCHEDULER, TRAIN, end_well, found_by, recipe

from hosts.cluster import Cluster, free_ports

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or shutil.which("ompi_info") is None,
    reason="OpenMPI is missing: apt-get install openmpi-bin",
)


def test_ranks_of_mpirun_meet_on_their_node_as_the_page_says(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    command = recipe("mpirun").replace("29500", str(*free_ports(1))).replace("train.py", str(tmp_path / "train.py"))
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    path = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "SHOAL_NODE_REDUCE": "auto"}
    with Cluster() as cluster:
        cluster.start_scheduler()
        cluster.launch_server().listens_at()
        command = command.replace(SCHEDULER, cluster.scheduler_address)
        output = end_well(cluster.start(["bash", "-c", command], as_root | path))
    ranks = found_by(output)
    assert [rank["rank"] for rank in ranks] == [0, 1] and {rank["world_size"] for rank in ranks} == {2}, output
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1"]
    assert {rank["LOCAL_WORLD_SIZE"] for rank in ranks} == {"2"}
    assert all(rank["bytes_on_node"] > 0 and rank["bytes_pushed"] == 0 for rank in ranks)
    assert {rank["cores"] for rank in ranks} == {len(os.sched_getaffinity(0))}
