"""A job on two nodes as users have them: with IPv6 alone, with one host name for both, with a host name that stands for
127.0.1.1 on its own node. The nodes are network namespaces of this machine, which needs root."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from torch_cluster import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
sys.path.insert(0, str(ROOT / "bench"))

from rig.nodes import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUTS, MS_BIND, MS_PRIVATE, MS_REC  # noqa: E402
from rig.nodes import call_libc, mount_own_sys, open_new_namespace  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")

RUN_SECONDS = 120
PORT = "29500"  # each test has networks of its own
SCRIPT = """
import datetime, os, torch, torch.distributed as dist, shoal
way = {}
if "STORE" in os.environ:
    way = dict(init_method="file://" + os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=2)
dist.init_process_group("shoal", timeout=datetime.timedelta(seconds=30), **way)
tensor = torch.full((300_000,), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
assert (tensor == 3).all()
words = [None, None]
dist.all_gather_object(words, f"word {dist.get_rank()}")  # by the inner backend
assert words == ["word 0", "word 1"], words
print("servers:", *sorted(shard["address"].rpartition(":")[0] for shard in shoal.statistics()["shards"]))
dist.destroy_process_group()
"""


@dataclasses.dataclass
class Container:
    namespace: int
    host_name: str
    hosts: pathlib.Path  # its /etc/hosts

    def enter(self) -> None:
        """In a child, before exec."""
        call_libc("setns", self.namespace, CLONE_NEWNET)
        call_libc("unshare", CLONE_NEWNS)
        call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        call_libc("mount", bytes(self.hosts), b"/etc/hosts", None, MS_BIND, None)
        mount_own_sys()  # where UCX looks for devices
        call_libc("unshare", CLONE_NEWUTS)
        call_libc("sethostname", self.host_name.encode(), len(self.host_name))

    def run(self, command: list[str]) -> None:
        subprocess.run(command, check=True, preexec_fn=self.enter, timeout=60)


class TwoNodes:
    """With a device eth0 each that leads to the other one. Addresses: of rank 0's node and of rank 1's."""

    def __init__(self, folder: pathlib.Path, addresses: tuple[str, ...], host_names: tuple[str, str], hosts: str = ""):
        self.folder = folder
        self.nodes: list[Container] = []
        for number, host_name in enumerate(host_names):
            file = folder / f"hosts_{number}"
            file.write_text(f"127.0.0.1 localhost\n::1 localhost\n{hosts.format(own=host_name)}")
            self.nodes.append(Container(open_new_namespace(), host_name, file))
        for node in self.nodes:
            node.run(["ip", "link", "set", "lo", "up"])
        if addresses:
            self.link("eth0", *addresses)

    def link(self, device: str, *addresses: str) -> None:
        one, other = self.nodes
        path = f"/proc/{os.getpid()}/fd/{other.namespace}"
        one.run(["ip", "link", "add", device, "type", "veth", "peer", "name", device, "netns", path])
        for node, address in zip(self.nodes, addresses):
            nodad = ["nodad"] if ":" in address else []
            node.run(["ip", "address", "add", address, "dev", device, *nodad])
            node.run(["ip", "link", "set", device, "up"])

    def close(self) -> None:
        for node in self.nodes:
            os.close(node.namespace)

    def run_job(
        self, script: str = SCRIPT, node_of_rank: tuple[int, ...] = (0, 1), **variables: str
    ) -> list[subprocess.CompletedProcess]:
        processes = []
        for rank, number in enumerate(node_of_rank):
            node, local_rank = self.nodes[number], node_of_rank[:rank].count(number)
            environment = clean_environment(RANK=str(rank), WORLD_SIZE=str(len(node_of_rank)), MASTER_PORT=PORT)
            environment |= {"LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(node_of_rank.count(number))}
            environment |= {"SHOAL_NODE_REDUCE": "off"} | variables
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            command = [sys.executable, "-c", script]
            processes.append(subprocess.Popen(command, env=environment, preexec_fn=node.enter, **streams))
        try:
            outputs = [process.communicate(timeout=RUN_SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [subprocess.CompletedProcess("", p.returncode, *output) for p, output in zip(processes, outputs)]

    def servers_of_job(self, **variables: str) -> set[str]:
        """Where the servers were of a job that went well."""
        results = self.run_job(**variables)
        assert [result.returncode for result in results] == [0, 0], "\n".join(result.stderr for result in results)
        found = {line for result in results for line in result.stdout.splitlines() if line.startswith("servers: ")}
        assert len(found) == 1, found
        return set(found.pop().split()[1:])


@pytest.fixture
def two_nodes(tmp_path: pathlib.Path) -> Iterator[Callable[..., TwoNodes]]:
    with contextlib.ExitStack() as open_nodes:

        def make(*arguments) -> TwoNodes:
            nodes = TwoNodes(tmp_path, *arguments)
            open_nodes.callback(nodes.close)
            return nodes

        yield make


IPV4 = ("10.77.0.1/24", "10.77.0.2/24")
IPV6 = ("fd77::1/64", "fd77::2/64")
OWN_NAME_ON_LOOPBACK = "127.0.1.1 {own}\n"


@pytest.mark.parametrize("device", ["", "eth0"])
def test_nodes_with_ipv6_alone(two_nodes, device: str):
    nodes = two_nodes(IPV6, ("node-a", "node-b"))
    servers = nodes.servers_of_job(MASTER_ADDR="fd77::1", SHOAL_NET_DEVICE=device)
    assert servers == {"[fd77::1]", "[fd77::2]"}


def test_a_cluster_on_nodes_with_ipv6_alone(two_nodes):
    nodes = two_nodes(IPV6, ("node-a", "node-b"))
    scheduler = "[fd77::1]:7070"
    server = [PROGRAMS / "shoal-server", "--scheduler", scheduler, "--advertise"]
    commands = [
        (0, [PROGRAMS / "shoal-scheduler", "--listen", scheduler]),
        (0, [*server, "fd77::1"]),
        (1, [*server, "fd77::2"]),
    ]
    processes = []
    try:
        for node, command in commands:
            processes.append(subprocess.Popen(command, preexec_fn=nodes.nodes[node].enter, stdout=subprocess.DEVNULL))
        # Both servers are in the group's map from the beginning.
        servers = nodes.servers_of_job(MASTER_ADDR="fd77::1", SHOAL_SCHEDULER=scheduler, SHOAL_MIN_SERVERS="2")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert servers == {"[fd77::1]", "[fd77::2]"}


def test_containers_of_one_machine_with_one_host_name(two_nodes):
    nodes = two_nodes(IPV4, ("localhost", "localhost"))
    assert nodes.servers_of_job(MASTER_ADDR="10.77.0.1") == {"10.77.0.1", "10.77.0.2"}


@pytest.mark.parametrize("master", ["10.77.0.1", "node-a"])
@pytest.mark.parametrize("device", ["", "eth0"])
def test_a_host_name_that_stands_for_loopback_on_its_own_node(two_nodes, master: str, device: str):
    nodes = two_nodes(IPV4, ("node-a", "node-b"), OWN_NAME_ON_LOOPBACK)
    with nodes.nodes[1].hosts.open("a") as hosts:
        hosts.write("10.77.0.1 node-a\n")
    assert nodes.servers_of_job(MASTER_ADDR=master, SHOAL_NET_DEVICE=device) == {"10.77.0.1", "10.77.0.2"}


LEAVING = """
import datetime, torch, torch.distributed as dist, shoal
from shoal import membership
membership.LEAVE_SECONDS = 3
dist.init_process_group("shoal", timeout=datetime.timedelta(seconds=60))
dist.barrier()  # Gloo does not bear a rank that leaves while another one still connects to it
store = dist.distributed_c10d._get_default_store()
group = dist.new_group([0, 1])
tell = membership._tell
membership._tell = lambda text: (tell(text), store.set("stays", "told"))
if dist.get_rank() < 2:
    store.wait(["stays"], datetime.timedelta(seconds=60))
    for group in (group, dist.new_group([0, 1], use_local_synchronization=True)):
        tensor = torch.ones(300_000)
        dist.all_reduce(tensor, group=group)
        assert (tensor == 2).all()
    assert shoal.statistics()["server_count"] == 2
dist.destroy_process_group()
"""


def test_a_node_s_first_rank_stays_with_its_server_until_ranks_on_other_nodes_have_left(two_nodes):
    nodes = two_nodes(IPV4, ("node-a", "node-b"))
    results = nodes.run_job(LEAVING, (0, 0, 1), MASTER_ADDR="10.77.0.1")
    assert [result.returncode for result in results] == [0, 0, 0], "\n".join(result.stderr for result in results)
    assert "shoal: rank 2 runs a server of the job, so it stays until all ranks have left" in results[2].stderr


def errors_of(results: list[subprocess.CompletedProcess]) -> list[str]:
    assert all(result.returncode != 0 for result in results)
    return [result.stderr.strip().splitlines()[-1] for result in results]


def test_loopback_between_two_nodes_is_an_error_that_says_what_to_do(two_nodes, tmp_path: pathlib.Path):
    nodes = two_nodes((), ("node-a", "node-b"))
    for error in errors_of(nodes.run_job(STORE=str(tmp_path / "store"))):
        assert "rank 0 on node-a has no address at which ranks on other nodes reach it" in error
        assert "all that was found is 127.0.0.1; set SHOAL_NET_DEVICE" in error


def test_an_address_is_not_chosen_among_several_by_chance(two_nodes, tmp_path: pathlib.Path):
    nodes = two_nodes(IPV4, ("node-a", "node-b"))
    nodes.link("eth1", "10.78.0.1/24", "10.78.0.2/24")
    for error in errors_of(nodes.run_job(STORE=str(tmp_path / "store"))):
        assert "this node has several addresses" in error and "10.78.0.1 on eth1" in error, error
    for variable in ("SHOAL_NET_DEVICE", "GLOO_SOCKET_IFNAME"):
        servers = nodes.servers_of_job(STORE=str(tmp_path / variable), **{variable: "eth1"})
        assert servers == {"10.78.0.1", "10.78.0.2"}, variable
