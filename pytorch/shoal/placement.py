"""Decides which rank runs what when no scheduler is given.

Every rank says which node it is on and at which address it can be reached (meeting.py). Rank 0 decides from that: it
runs the scheduler, and the first rank of each node runs an in-process reduction server.
"""

import dataclasses
import ipaddress
import os
import socket
from collections.abc import Mapping

from shoal import _C


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all ranks agree on before they join."""

    scheduler: str  # "host:port"
    job_name: str
    server_ranks: list[int]  # ranks that run a server in their process; empty: the cluster has its own
    min_servers: int
    on_one_node: bool
    # With which ranks and their servers show a scheduler of the job's own who they are; empty: nobody is asked.
    keys: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True)
class RankPlace:
    """Where a rank runs, and the scheduler that it is configured with."""

    node: str  # ranks that have the same text reach each other at 127.0.0.1
    host: str  # the node's name, for people
    address: str  # at which ranks on other nodes reach it; empty, or of loopback: there is none
    trouble: str  # why it is empty
    scheduler: str | None
    by_nccl: bool  # SHOAL_DEVICES=none: NCCL reduces its CUDA tensors


@dataclasses.dataclass(frozen=True)
class LocalPlace:
    """A rank among those of its node, as the launcher says; a world size of 0: it does not say."""

    rank: int
    world_size: int


def local_place(environment: Mapping[str, str]) -> LocalPlace:
    """As torchrun sets it. Raises ValueError if it is not a number."""
    values = []
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        text = environment.get(name, "")
        if text and not text.isdecimal():
            raise ValueError(f"{name}={text!r}: expected a number, as torchrun sets it")
        values.append(int(text or 0))
    return LocalPlace(*values)


def first_device(net_device: str) -> str:
    """Of those over which the ranks of a node are dealt. The node's first rank, which runs a server, uses it."""
    return net_device.split("/")[0]


def describe_this_rank(scheduler: str | None, net_device: str, by_nccl: bool) -> RankPlace:
    """By the library, as everything in it finds out where it is. Over which device the ranks meet may also be said by
    GLOO_SOCKET_IFNAME; without either the address is the one towards rank 0 (MASTER_ADDR), or towards the scheduler."""
    device = first_device(net_device) or os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    master = os.environ.get("MASTER_ADDR", "")
    peers = [f"[{master}]:0"] if master and not is_loopback(master) else []
    for peer in [*peers, scheduler or ""]:
        identity, address, trouble = _C.describe_node(net_device=device, peer=peer)
        if address:
            break
    host = socket.gethostname()
    return RankPlace(identity or f"host {host}", host, address, trouble, scheduler, by_nccl)


def is_loopback(host: str) -> bool:
    """Whether this name or IP address stands for the node that looks it up, whichever that is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def server_ranks_of(places: list[RankPlace]) -> list[int]:
    """The first rank of each node."""
    first_of_node: dict[str, int] = {}
    for rank, place in enumerate(places):
        first_of_node.setdefault(place.node, rank)
    return sorted(first_of_node.values())


def io_threads_of(ranks: int, processors: int) -> int:
    """How many threads a server for all ranks of its own node gets, where memory is the limit. The server passes over a
    tensor once for each rank and once for the result; a rank's two copies are four passes. So there are enough threads
    that none has more to do than a rank, if there are processors for them."""
    return max(1, min(-(-(ranks + 1) // 4), processors))


def is_one_node(places: list[RankPlace]) -> bool:
    return len({place.node for place in places}) == 1


def check_addresses(places: list[RankPlace]) -> None:
    """Raises ValueError if ranks are on several nodes, and one can't be reached from another."""
    if is_one_node(places):
        return
    for rank, place in enumerate(places):
        if place.address and not is_loopback(place.address):
            continue
        why = place.trouble or f"all that was found is {place.address}"
        raise ValueError(
            f"rank {rank} on {place.host} has no address at which ranks on other nodes reach it: {why}; set"
            " SHOAL_NET_DEVICE to the network device that the nodes share, such as eth0"
        )


def check_schedulers(places: list[RankPlace]) -> None:
    for rank, place in enumerate(places):
        if place.scheduler != places[0].scheduler:
            raise ValueError(
                f"rank 0 has scheduler {places[0].scheduler or '(none)'}, rank {rank} has"
                f" {place.scheduler or '(none)'}: "
                "set SHOAL_SCHEDULER to the same value on all ranks, or on none"
            )


def check_devices(places: list[RankPlace]) -> None:
    for rank, place in enumerate(places):
        if place.by_nccl != places[0].by_nccl:
            said = {True: "has SHOAL_DEVICES=none", False: "has not"}
            raise ValueError(
                f"rank 0 {said[places[0].by_nccl]}, rank {rank} {said[place.by_nccl]}: one would reduce CUDA tensors by"
                " NCCL and the other one by the servers; set it on all ranks, or on none"
            )
