"""torchft's process group on Shoal, for torchft.Manager: replicas die and come back, and the others train on.

    manager = torchft.Manager(pg=shoal.torchft.ProcessGroupShoal(), ...)

Works with torchft 0.2.0 and with its nightly builds, which also take init_process_group("shoal",
enable_reconfigure=True) as it is. Needs torch 2.14 or later, SHOAL_SCHEDULER and SHOAL_JOB_NAME.
"""

import contextlib
import datetime
import hashlib
import os

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType, ReconfigureOptions

import torchft.process_group
from shoal import _C, inner, roster


class ProcessGroupShoal(torchft.process_group.ProcessGroupWrapper):
    """One for each rank of a replica group. All ranks of all replica groups that are ever to meet have the same
    SHOAL_JOB_NAME; those that have the same place in their replica groups make up one group at a time.

    timeout: of all-reduces, and for the others to come.
    options: as shoal.GroupOptions has them.
    identity: who this is, for `shoalctl jobs`; "": the node's name and the process.

    Raises DistBackendError if there is no scheduler or no server in time, and ValueError for wrong settings.
    """

    def __init__(
        self,
        timeout: datetime.timedelta = datetime.timedelta(seconds=60),
        options: _C.GroupOptions | None = None,
        identity: str = "",
    ) -> None:
        super().__init__(timeout)
        group = inner.GroupDescription()
        group.group_rank, group.group_size = 0, 1
        group.timeout = timeout
        group.group_id = "torchft"
        options = options or _C.GroupOptions(wire=None, node_reduce=None, inner=None)
        self._backend = roster.create_backend(group, options, identity)
        self._pg = dist.ProcessGroup(dist.HashStore(), 0, 1)
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._pg._set_default_backend(kind)
        for device in ("cpu", "cuda"):
            self._pg._register_backend(torch.device(device), kind, self._backend)

    def getBackendName(self) -> str:  # torch's name
        return "torchft-shoal"

    # ---- torchft's nightly builds ----

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        return self._backend.get_reconfigure_handle()

    def reconfigure(self, opts: ReconfigureOptions) -> dist.Work:
        return self._backend.reconfigure(opts)

    # ---- torchft 0.2.0 ----

    def configure(
        self, store_addr: str, replica_id: str, rank: int, world_size: int, *_arguments: object, **_named: object
    ) -> None:
        """Under `store_addr` the ranks tell each other their handles. A lighthouse that was started again gives an
        address out a second time: so no handle stays there, and a random word of each rank makes it another roster."""
        store = torchft.process_group.create_store_client(store_addr, timeout=self._timeout)
        store.set(f"handle {rank}", f"{self.get_reconfigure_handle()} {os.urandom(8).hex()}")
        try:
            told = [word.decode() for word in store.multi_get([f"handle {i}" for i in range(world_size)])]
            options = ReconfigureOptions()
            options.handles = [word.rsplit(" ", 1)[0] for word in told]
            options.uuid = int.from_bytes(hashlib.sha256("\n".join(told).encode()).digest()[:7], "big")
            options.timeout = self._timeout
            self.reconfigure(options)  # returns when all of them have read all handles
        finally:
            with contextlib.suppress(RuntimeError):  # the store has ended with the replica that had it
                store.delete_key(f"handle {rank}")

    # ---- both ----

    def abort(self, errored: bool = True) -> None:
        self._backend.abort()

    def errored(self) -> Exception | None:
        error = self._backend.get_error()
        if error == ErrorType.SUCCESS:
            return None
        return dist.DistBackendError(f"shoal: the group has failed: {self._backend.failure() or error}")

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout
        self._backend.set_timeout(timeout)

    def shutdown(self) -> None:
        """Leaves the job."""
        self._backend.shutdown()
