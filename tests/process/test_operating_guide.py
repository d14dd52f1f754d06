"""What docs/operating.md tells operators to run is run here as it stands there, but for the folders of the programs and
of the state. Real processes."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

from hosts.cluster import PROGRAMS, ROOT, SCHEDULER_LISTENS, SERVER_LISTENS, Cluster, linked_cluster
from hosts.etcd import Etcd
from hosts.node import Node
from hosts.process import PATIENCE_S, Process

GUIDE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
SCHEDULER = "10.0.0.1:7070"


def unit_command(name: str) -> str:
    """ExecStart of the unit of that program."""
    [command] = re.findall(rf"ExecStart=(/opt/shoal/bin/{name} (?:[^\n]*\\\n)*[^\n]*)", GUIDE)
    return command.replace("\\\n", " ")


def commands() -> list[str]:
    """All commands of Shoal's programs, in blocks and within sentences."""
    blocks = re.findall(r"^ *```\n(.*?)^ *```$", GUIDE, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL))
    texts = [" ".join(text.removeprefix("ExecStart=").split()) for text in lines + spans]
    found = {text.replace("/opt/shoal/bin/", "") for text in texts}
    return sorted(text for text in found if re.match(r"shoal(ctl|-perf|-server|-scheduler)( |$)", text))


def test_there_are_commands_of_each_program():
    programs = {command.split()[0] for command in commands()}
    assert programs == {"shoalctl", "shoal-perf", "shoal-server", "shoal-scheduler"}
    assert len(commands()) >= 25, f"{commands()}"


@pytest.mark.parametrize("command", [each for each in commands() if each != "shoalctl COMMAND -h"])
def test_a_program_takes_the_options_that_the_guide_gives_it(command: str):
    words = shlex.split(command)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    done = subprocess.run(
        [str(PROGRAMS / words[0]), *words[1:], "--help"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stderr}"


def start_on(cluster: Cluster, node: Node, address: str, command: str, state: pathlib.Path) -> Process:
    addresses = node.run(["ip", "-o", "address", "show", "dev", node.device])
    if f" {address}/" not in addresses:
        node.run(["ip", "address", "add", f"{address}/24", "dev", node.device])
    command = command.replace("/opt/shoal/bin", str(PROGRAMS)).replace("/var/lib/shoal/state", str(state))
    with cluster.on(node):
        return cluster.start(shlex.split(command.replace("%H", node.name)))


def test_the_units_make_a_cluster_and_a_server_is_upgraded(tmp_path: pathlib.Path):
    with linked_cluster(1, 1) as cluster:
        node = cluster.network.servers[0]
        cluster.scheduler_address = SCHEDULER
        scheduler = start_on(
            cluster, cluster.network.control, "10.0.0.1", unit_command("shoal-scheduler"), tmp_path / "state"
        )
        assert scheduler.wait_for_line(SCHEDULER_LISTENS).group(1) == SCHEDULER
        server = start_on(cluster, node, "10.0.0.11", unit_command("shoal-server"), tmp_path)
        assert server.wait_for_line(SERVER_LISTENS).group(1) == node.name
        assert "server is" not in cluster.shoalctl_text("doctor")
        assert cluster.shoalctl_text("drain", node.name, "--wait").endswith("has left\n")
        # The old process has its ports for a moment more.
        following = start_on(cluster, node, "10.0.0.11", unit_command("shoal-server"), tmp_path)
        following.wait_for_line(SERVER_LISTENS)
        assert server.wait() == 0
        assert cluster.servers()[node.name]["state"] == "live"


def test_three_schedulers_are_started_and_named_as_the_guide_says(cluster: Cluster, tmp_path: pathlib.Path):
    [store] = re.findall(r"^shoal-scheduler .*\\\n +--store (etcd://\S+)$", GUIDE, re.MULTILINE)
    [addresses] = set(re.findall(r"`--scheduler (10[^`]*,10[^`]*)`", GUIDE))
    count = len(addresses.split(","))
    assert count == 3
    prefix = store.rpartition("/")[2]
    etcd = Etcd(cluster, tmp_path)
    schedulers = []
    for _ in range(count):
        scheduler = cluster.start_scheduler("--store", f"etcd://{etcd.address}/{prefix}")
        schedulers.append(scheduler.wait_for_line(SCHEDULER_LISTENS).group(1))
    cluster.scheduler_address = ",".join(schedulers)
    cluster.start_server("alpha")
    [listed] = cluster.shoalctl("schedulers")
    assert [each["address"] for each in listed["schedulers"]] == schedulers
    assert [each["leads"] for each in listed["schedulers"]].count(True) == 1, f"{listed}"
    assert len({each["cluster_id"] for each in listed["schedulers"]}) == 1
    doctor = cluster.shoalctl_text("doctor")
    assert re.search(r"good +scheduler +all 3 answer", doctor), doctor
    assert "none of those listed" not in doctor
    [document] = cluster.shoalctl("status")
    leader = document["cluster"]["leader"]
    cluster.scheduler_address = ",".join(each for each in schedulers if each != leader)
    doctor = " ".join(cluster.shoalctl_text("doctor").split())
    assert f"warning scheduler the scheduler at {leader} leads, and is none of those listed" in doctor
