"""Decides which rank runs what when no scheduler is given.

Every rank says which node it is on and at which address it can be reached (meeting.py). Rank 0 decides from that: it
runs the scheduler, and the first rank of each node runs an in-process reduction server.
"""

import dataclasses
import os
import pathlib
import socket
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all ranks agree on before they join."""

    scheduler: str  # "host:port"
    job_name: str
    server_ranks: list[int]  # ranks that run a server in their process; empty: the cluster has its own
    min_servers: int
    on_one_node: bool


@dataclasses.dataclass(frozen=True)
class RankPlace:
    """Where a rank runs, and the scheduler that it is configured with."""

    node: str
    address: str
    scheduler: str | None


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


def describe_this_rank(scheduler: str | None, net_device: str) -> RankPlace:
    return RankPlace(node_identity(), local_address(net_device), scheduler)


def node_identity() -> str:
    """Equal for ranks on the same node. The node's name alone would not do: two nodes may have the same."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}/{boot}"


def local_address(net_device: str) -> str:
    """The IP address at which other nodes reach this one: that of the device if one is named, otherwise of the route to
    MASTER_ADDR, otherwise of the default route; 127.0.0.1 if there is no network."""
    if net_device and net_device != "lo":
        return device_address(first_device(net_device).split(",")[0].split(":")[0])
    for target in (os.environ.get("MASTER_ADDR"), "192.0.2.1"):  # the latter is an address for documentation
        address = _address_of_route(target) if target else None
        if address and not address.startswith("127."):
            return address
    return "127.0.0.1"


def device_address(device: str) -> str:
    import fcntl
    import struct

    get_interface_address = 0x8915  # SIOCGIFADDR
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, get_interface_address, struct.pack("256s", device.encode()[:15]))
        except OSError as error:
            raise ValueError(f"SHOAL_NET_DEVICE={device}: no IPv4 address ({error.strerror})") from None
    return socket.inet_ntoa(answer[20:24])


def _address_of_route(target: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))  # a datagram socket: nothing is sent
            return probe.getsockname()[0]
        except OSError:
            return None


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


def check_schedulers(places: list[RankPlace]) -> None:
    for rank, place in enumerate(places):
        if place.scheduler != places[0].scheduler:
            raise ValueError(
                f"rank 0 has scheduler {places[0].scheduler or '(none)'}, rank {rank} has"
                f" {place.scheduler or '(none)'}: "
                "set SHOAL_SCHEDULER to the same value on all ranks, or on none"
            )
