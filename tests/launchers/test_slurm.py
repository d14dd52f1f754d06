"""Ranks that a real Slurm starts on two nodes, which are network namespaces of this machine."""

import contextlib
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest
from recipes import SCHEDULER, TRAIN, found_by, recipe

from hosts.cluster import Cluster
from hosts.network import make_named_nodes
from hosts.node import MS_BIND, Node, call_libc

MISSING = [name for name in ("slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {MISSING}; apt-get install slurmctld slurmd slurm-client"),
]
WORKERS = ("worker-0", "worker-1")
SETTINGS = """
ClusterName=test
SlurmctldHost=control({control})
AuthType=auth/none
CredType=cred/none
SlurmUser=root
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/pid.%n
SlurmctldPidFile={folder}/pid.control
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PartitionName=all Nodes={workers} Default=YES
"""


@contextlib.contextmanager
def start_slurm(folder: pathlib.Path) -> Iterator[tuple[Cluster, dict[str, Node]]]:
    """A cluster on nodes of its own, with a Slurm that has two of them."""
    network, nodes = make_named_nodes(["control", *WORKERS, "server"])
    network.control = nodes["control"]
    settings = SETTINGS.format(control=nodes["control"].address, folder=folder, workers=",".join(WORKERS))
    # With more cores than there are, so that the recipes fit.
    settings += "".join(f"NodeName={name} NodeAddr={nodes[name].address} CPUs=4\n" for name in WORKERS)
    (folder / "slurm.conf").write_text(settings, encoding="ascii")
    names = folder / "hosts"
    names.write_text("127.0.0.1 localhost\n" + "".join(f"{node.address} {name}\n" for name, node in nodes.items()))
    with network, Cluster(network) as cluster:
        cluster.environment = {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "SHOAL_NODE_REDUCE": "auto",
            "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        cluster.before_exec = lambda: call_libc("mount", bytes(names), b"/etc/hosts", None, MS_BIND, None)
        cluster.start(["slurmctld", "-D", "-c"], node=nodes["control"])
        for name in WORKERS:
            cluster.start(["slurmd", "-D", "-N", name], node=nodes[name])
        idle = ["env", f"SLURM_CONF={folder}/slurm.conf", "sinfo", "--noheader", "--states=idle", "--format=%D"]
        cluster.wait_until(lambda: cluster.call(idle).stdout.strip() == "2", "both nodes to be idle")
        yield cluster, nodes


@pytest.mark.parametrize("number", [0, 1], ids=["ranks", "torchrun"])
def test_ranks_of_slurm_meet_on_their_node_alone_as_the_page_says(tmp_path, number):
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    with start_slurm(tmp_path) as (cluster, nodes):
        cluster.start_scheduler()
        with cluster.on(nodes["server"]):
            cluster.launch_server().listens_at()
        script = tmp_path / "job.sh"
        script.write_text(recipe("Slurm", number).replace(SCHEDULER, cluster.scheduler_address), encoding="utf-8")
        output = tmp_path / "output"
        job = cluster.start(["sbatch", "--wait", "--chdir", tmp_path, "--output", output, script])
        job.wait(120)
        said = output.read_text(encoding="utf-8")
        assert job.code == 0, said
    ranks = found_by(said)
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3] and {rank["world_size"] for rank in ranks} == {4}
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0", "1"]
    assert {(rank["LOCAL_WORLD_SIZE"], rank["SHOAL_JOB_NAME"]) for rank in ranks} == {("2", "slurm-1")}
    # Each rank reduced with that of its node, and then its half with the other node through the server.
    assert {rank["bytes_on_node"] for rank in ranks} == {400_000}
    assert all(0 < rank["bytes_pushed"] < 220_000 for rank in ranks)
