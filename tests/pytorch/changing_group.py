"""Processes whose default group gets its ranks by torch's reconfigure, again and again."""

import datetime
import os
from collections.abc import Callable

import torch
import torch.distributed as dist

import shoal
from rank_processes import run_ranks
from torch_cluster import Cluster

ELEMENTS = 100_003  # some chunks, and no round number
TIMEOUT = datetime.timedelta(seconds=30)
LEASE_S = 5  # of the scheduler's clients, unless it is told another one


class Group:
    """The default group of this process, which has no ranks at first, and the other processes' handles."""

    def __init__(self, store_port: int, backend: str, options: shoal.GroupOptions | None = None):
        self.process, processes = int(os.environ["TEST_RANK"]), int(os.environ["TEST_RANKS"])
        self.store = dist.TCPStore("127.0.0.1", store_port, is_master=False, timeout=TIMEOUT)
        # Gloo meets by way of the store, so that it needs one that all have; to Shoal it means nothing.
        store = dist.PrefixStore("of the group", self.store) if backend == "gloo" else dist.HashStore()
        dist.init_process_group(
            backend, store=store, rank=self.process, world_size=processes, timeout=TIMEOUT, enable_reconfigure=True,
            pg_options=options,
        )  # fmt: skip
        self.backend = dist.get_backend_impl(dist.group.WORLD, torch.device("cpu"))
        assert dist._supports_reconfigure() and self.backend.supports_reconfigure

    def handles(self, turn: str, processes: list[int]) -> list[str]:
        """Those of these processes, of which this is one."""
        self.store.set(f"{turn} {self.process}", dist._get_reconfigure_handle())
        return [self.store.get(f"{turn} {process}").decode() for process in processes]

    def become(self, uuid: int, processes: list[int], in_order: bool = True, turn: str = "") -> None:
        handles = self.handles(turn or str(uuid), processes)
        dist._reconfigure(uuid, handles if in_order else set(handles), timeout=TIMEOUT).wait()
        if in_order:
            assert (dist.get_rank(), dist.get_world_size()) == (processes.index(self.process), len(processes))

    def say(self, word: str) -> None:
        self.store.set(word, "said")

    def hear(self, word: str) -> None:
        self.store.wait([word], TIMEOUT)

    def all_hear(self, word: str, processes: int) -> None:
        self.say(f"{word} {self.process}")
        for process in range(processes):
            self.hear(f"{word} {process}")


def check_collectives(processes: list[int], own: int) -> None:
    """Of a group of these processes, in the order of its ranks."""
    tensor = torch.full((ELEMENTS,), own + 1.0)
    dist.all_reduce(tensor)
    assert (tensor == sum(processes) + len(processes)).all(), (tensor, processes)
    tensor = torch.full((3,), float(own))
    dist.broadcast(tensor, group_src=len(processes) - 1)
    assert (tensor == processes[-1]).all()
    gathered = [torch.zeros(1) for _ in processes]
    dist.all_gather(gathered, torch.tensor([float(own)]))
    assert [int(each) for each in gathered] == processes
    dist.barrier()


def run(cluster: Cluster, store: dist.TCPStore, processes: int, function: Callable, *arguments: object, **more) -> list:
    environment = cluster.environment(**more.pop("environment", {}))
    more = {"environment": environment, "init": False, "timeout_seconds": 90} | more
    return run_ranks(processes, function, store.port, *arguments, **more)
