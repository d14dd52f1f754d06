"""A job on two nodes as users have them: with IPv6 alone, with one host name for both, with a host name that stands for
127.0.1.1 on its own node. The nodes are network namespaces of this machine, which needs root."""

import contextlib
import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Iterator

import pytest
from torch_cluster import clean_environment

from hosts.cluster import Cluster, program
from hosts.node import (
    CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUTS, MS_BIND, MS_PRIVATE, MS_REC, Node, call_libc, mount_own_sys,
    open_new_namespace,
)  # fmt: skip
from hosts.process import Process, Processes

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


@dataclasses.dataclass(frozen=True)
class Container(Node):
    """As others of its machine it has that one's boot id."""

    hosts: pathlib.Path = pathlib.Path("/etc/hosts")  # its own

    def enter(self) -> None:
        call_libc("setns", self.namespace, CLONE_NEWNET)
        call_libc("unshare", CLONE_NEWNS)
        call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        call_libc("mount", bytes(self.hosts), b"/etc/hosts", None, MS_BIND, None)
        mount_own_sys()
        call_libc("unshare", CLONE_NEWUTS)
        call_libc("sethostname", self.name.encode(), len(self.name))


class TwoNodes:
    """With a device eth0 each that leads to the other one. Addresses: of rank 0's node and of rank 1's."""

    def __init__(self, folder: pathlib.Path, addresses: tuple[str, ...], host_names: tuple[str, str], hosts: str = ""):
        self.folder = folder
        self.nodes: list[Container] = []
        for number, host_name in enumerate(host_names):
            file = folder / f"hosts_{number}"
            file.write_text(f"127.0.0.1 localhost\n::1 localhost\n{hosts.format(own=host_name)}")
            self.nodes.append(Container(host_name, namespace=open_new_namespace(), hosts=file))
        for node in self.nodes:
            node.run(["ip", "link", "set", "lo", "up"])
        if addresses:
            self.link("eth0", *addresses)

    def link(self, device: str, *addresses: str) -> None:
        one, other = self.nodes
        peer = ["peer", "name", device, "netns", other.namespace_path()]
        one.run(["ip", "link", "add", device, "type", "veth", *peer])
        for node, address in zip(self.nodes, addresses):
            nodad = ["nodad"] if ":" in address else []
            node.run(["ip", "address", "add", address, "dev", device, *nodad])
            node.run(["ip", "link", "set", device, "up"])

    def close(self) -> None:
        for node in self.nodes:
            os.close(node.namespace)

    def run_job(
        self, script: str = SCRIPT, node_of_rank: tuple[int, ...] = (0, 1), **variables: str
    ) -> list[Process]:
        """Its ranks, which have ended."""
        with Processes() as processes:
            ranks = []
            for rank, number in enumerate(node_of_rank):
                local_rank = node_of_rank[:rank].count(number)
                environment = clean_environment(RANK=str(rank), WORLD_SIZE=str(len(node_of_rank)), MASTER_PORT=PORT)
                environment |= {"LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(node_of_rank.count(number))}
                ranks.append(
                    processes.start([sys.executable, "-c", script], environment | variables, self.nodes[number])
                )
            for rank in ranks:
                rank.wait(RUN_SECONDS)
            return ranks

    def servers_of_job(self, **variables: str) -> set[str]:
        """Where the servers were of a job that went well."""
        ranks = self.run_job(**variables)
        assert [rank.code for rank in ranks] == [0, 0], ranks
        found = {line for rank in ranks for line in rank.output.splitlines() if line.startswith("servers: ")}
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
    with Cluster() as cluster:
        with cluster.on(nodes.nodes[0]):
            cluster.start_scheduler(listen=scheduler)
        for number, node in enumerate(nodes.nodes, start=1):
            with cluster.on(node):
                cluster.launch_server(advertise=f"fd77::{number}")
        # Both servers are in the group's map from the beginning.
        servers = nodes.servers_of_job(MASTER_ADDR="fd77::1", SHOAL_SCHEDULER=scheduler, SHOAL_MIN_SERVERS="2")
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


ASKING = """
import datetime, logging, os, pathlib, subprocess, torch, torch.distributed as dist, shoal
words = []
class Keep(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("shoalctl "):
            words.extend(record.getMessage().split()[1:])
logging.getLogger("shoal").setLevel(logging.INFO)
logging.getLogger("shoal").addHandler(Keep())
dist.init_process_group("shoal", timeout=datetime.timedelta(seconds=60))
said = [words]
dist.broadcast_object_list(said, 0)
(_, scheduler, *files), folder = said[0], pathlib.Path(said[0][-1]).parent
def ask(*options):
    command = [os.environ["SHOALCTL"], "--scheduler", scheduler, *options, "status"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
if dist.get_rank() == 1:
    stranger = ask()
    assert stranger.returncode == 1 and "--tls-cert" in stranger.stderr, stranger
else:
    assert folder.stat().st_mode & 0o77 == 0
    operator = ask(*files)
    assert operator.returncode == 0 and "2 servers live" in operator.stdout, operator
    assert "Warning" not in operator.stdout
dist.barrier()
dist.destroy_process_group()
assert os.environ["RANK"] != "0" or not folder.exists()
"""


def test_a_stranger_cannot_ask_a_jobs_own_scheduler(two_nodes):
    nodes = two_nodes(IPV4, ("node-a", "node-b"))
    ranks = nodes.run_job(ASKING, MASTER_ADDR="10.77.0.1", SHOALCTL=program("shoalctl"))
    assert [rank.code for rank in ranks] == [0, 0], ranks


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
    ranks = nodes.run_job(LEAVING, (0, 0, 1), MASTER_ADDR="10.77.0.1")
    assert [rank.code for rank in ranks] == [0, 0, 0], ranks
    assert "shoal: rank 2 runs a server of the job, so it stays until all ranks have left" in ranks[2].output


def errors_of(ranks: list[Process]) -> list[str]:
    assert all(rank.code != 0 for rank in ranks)
    return [rank.output.splitlines()[-1] for rank in ranks]


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
