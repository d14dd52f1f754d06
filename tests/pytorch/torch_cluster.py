"""The cluster that the PyTorch tests share. A module of its own, as processes of the tests import it by name: there are
several conftest modules."""

import contextlib
import dataclasses
import os
import sys
import uuid
from collections.abc import Iterator

import hosts.cluster

# Before its arguments, the script and the script's.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]


def clean_environment(**more: str) -> dict[str, str]:
    """This process's, of Shoal's settings only where its files are: for programs that get settings of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    kept |= {name: os.environ[name] for name in ("SHOAL_LIBRARY", "SHOAL_BIN") if name in os.environ}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "SHOAL_FLIGHT_RECORDER": "off"} | more


@dataclasses.dataclass(frozen=True)
class Cluster:
    scheduler: str
    servers: tuple[int, ...]  # process ids

    def environment(self, **more: str) -> dict[str, str]:
        """Variables that put a job of its own onto this cluster: onto its servers, though all ranks are on one node."""
        return {
            "SHOAL_SCHEDULER": self.scheduler,
            "SHOAL_JOB_NAME": f"test-{uuid.uuid4().hex[:12]}",
            "SHOAL_MIN_SERVERS": "2",
            "SHOAL_NET_DEVICE": "lo",
            "SHOAL_CHECKSUMS": "1",
            "SHOAL_NODE_REDUCE": "off",
        } | more


@contextlib.contextmanager
def start_cluster() -> Iterator[Cluster]:
    with hosts.cluster.Cluster() as started:
        started.environment["SHOAL_SERVER_FLIGHT_RECORDER"] = "off"  # groups fail on purpose
        started.start_scheduler()
        servers = [started.launch_server("--net-device", "lo") for _ in range(2)]
        for server in servers:
            server.listens_at()
        yield Cluster(started.scheduler_address, tuple(server.pid for server in servers))
