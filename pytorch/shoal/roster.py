"""Process groups whose ranks change while they live: torch's reconfigure (since torch 2.14), over an open job.

init_process_group("shoal", enable_reconfigure=True) joins the open job that SHOAL_JOB_NAME names, as a member with a
number that nobody has had before, and makes no group. Each reconfigure makes one of the members whose handles it is
given, under a name made of all of them: so only those meet who were given the same ones. Where the inner backends find
each other, the members tell each other through the new group. No store is needed, so that none can be lost.
"""

import dataclasses
import datetime
import hashlib
import os
import socket
import time

import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

from shoal import _C, config, inner, membership, mesh, placement

HANDLE_FORMAT = "shoal-1"
WORD_BYTES = 128  # in which rank 0 says where its store is


@dataclasses.dataclass(frozen=True)
class Handle:
    """Of one member: number and job say who it is, and `draw` that it is no one of an earlier job of that name."""

    number: int
    draw: str
    job_name: str

    def __str__(self) -> str:
        return f"{HANDLE_FORMAT}:{self.number}:{self.draw}:{self.job_name}"

    @classmethod
    def parse(cls, text: str) -> "Handle":
        """Raises DistBackendError."""
        parts = text.split(":", 3)
        if len(parts) != 4 or parts[0] != HANDLE_FORMAT or not parts[1].isdecimal():
            raise dist.DistBackendError(
                f"shoal: reconfigure: {text[:200]!r} is no handle of a Shoal process group; pass what the members'"
                " get_reconfigure_handle() returned"
            )
        return cls(int(parts[1]), parts[2], parts[3])


class Member:
    """This process in the open job, for one process group. Used by one thread at a time."""

    def __init__(
        self, group: inner.GroupDescription, options: _C.GroupOptions, settings: config.Config, identity: str
    ) -> None:
        """Joins. `options` has the settings that differ from group to group. Raises DistBackendError or ValueError."""
        self._settings = settings
        self._options = options
        self._identity = identity[:200]
        self._group_id = group.group_id
        self._bound_device = getattr(getattr(group, "process_group", None), "bound_device_id", None)
        self._timeout = group.timeout
        self._address = placement.describe_this_rank(settings.scheduler, settings.net_device, False).address
        self._needs_common_store = inner.needs_common_store(options.inner)
        self._kept_devices: list | None = None  # of a Gloo that does not connect lazily: to end one takes 10 ms
        if self._needs_common_store and not inner.has_devices(options.inner):
            self._kept_devices = inner.gloo_devices(self._address, lazy=False)
        self._used: set[int] = set()
        self._store: dist.Store | None = None  # where the inner backends of the newest ranks have met
        self._connections = mesh.Connections()
        self._join()

    def _join(self) -> None:
        job_name = self._settings.job_name
        self.session = membership.connect_to_open_job(self._settings, job_name, self._identity, self._timeout)
        self.handle = str(Handle(self.session.rank, os.urandom(4).hex(), job_name))

    def reconfigure(
        self,
        backend: _C.ShoalBackend,
        uuid: int,
        handles: list[str],
        in_order: bool,
        timeout: datetime.timedelta | None,
    ) -> None:
        """The members that have the handles become the backend's ranks. Raises DistBackendError: before anything is
        changed if the uuid was used before or the handles are no members with this one among them; otherwise the
        backend has no ranks then, and another reconfigure may give it some."""
        members = self._members(uuid, handles, in_order)
        deadline = time.monotonic() + (timeout or self._timeout).total_seconds()
        self._connections.cancel()
        backend.end_roster()
        try:
            self._begin_roster(backend, uuid, members, deadline)
        except dist.DistBackendError as error:
            if getattr(error, "shoal_code", None) != _C.FAILED_PRECONDITION:
                raise
            # The scheduler has given this member up, as if it had ended.
            self._join()
            try:
                backend.rejoin(self.session, self.handle)
            except BaseException:
                self.session.close()
                raise
            raise dist.DistBackendError(
                f"{error}; this process has joined again, with another handle: exchange handles once more"
            ) from None
        self._used.add(uuid)

    def _begin_roster(self, backend: _C.ShoalBackend, uuid: int, members: list[Handle], deadline: float) -> None:
        rank = [str(member) for member in members].index(self.handle)
        numbers = [member.number for member in members]
        group = self._make_group(uuid, members, deadline) if len(members) > 1 else None
        try:
            cpu_inner, cuda_inner = self._make_inner(group, rank, numbers, deadline)
            backend.begin_roster(
                rank=rank, ranks_of_job=numbers, group=group, cpu_inner=cpu_inner, cuda_inner=cuda_inner
            )
        except BaseException:
            if group is not None:
                group.abort("a rank could not be reconfigured")  # those that could are told
                self.session.close_group(group)
            raise

    def _make_inner(
        self, group: _C.Group | None, rank: int, numbers: list[int], deadline: float
    ) -> tuple[C10dBackend, C10dBackend | None]:
        described = inner.GroupDescription()
        described.group_rank, described.group_size = rank, len(numbers)
        described.group_id = self._group_id
        described.global_ranks_in_group = numbers
        if self._needs_common_store and group is not None:
            described.store = self._meet(group, rank, deadline)
        else:
            described.store = dist.HashStore()
        # Gloo keeps it for receives, whatever the backend's timeout is later; and waits five times as long for a peer
        # to connect.
        described.timeout = datetime.timedelta(milliseconds=_milliseconds_until(deadline))
        if self._bound_device is not None:
            described.process_group = dist.ProcessGroup(described.store, rank, len(numbers))
            described.process_group.bound_device_id = self._bound_device
        if self._needs_common_store:
            return inner.inner_backends(described, self._options.inner, self._address, self._kept_devices)
        devices = inner.gloo_devices(self._address, lazy=True)
        made = inner.inner_backends(described, self._options.inner, self._address, devices)
        if group is not None:
            mesh.exchange_addresses(described.store, group, rank, len(numbers), _milliseconds_until(deadline))
            self._connections.begin(made[0], rank, len(numbers), len(devices), deadline)
        return made

    def _members(self, uuid: int, handles: list[str], in_order: bool) -> list[Handle]:
        """In the order of their ranks."""
        if uuid in self._used:
            raise dist.DistBackendError(
                f"shoal: reconfigure: uuid {uuid} was already used by this process group; draw another one"
            )
        members = [Handle.parse(text) for text in handles]
        for member in members:
            if member.job_name != self._settings.job_name:
                raise dist.DistBackendError(
                    f'shoal: reconfigure: {member} is a member of job "{member.job_name}", and this process one of'
                    f' "{self._settings.job_name}": set SHOAL_JOB_NAME to the same name on all of them'
                )
        if len({member.number for member in members}) != len(members):
            raise dist.DistBackendError("shoal: reconfigure: a handle is there twice; pass that of each member once")
        if self.handle not in handles:
            raise dist.DistBackendError(
                f"shoal: reconfigure: the handle of this process, {self.handle}, is not among the {len(handles)} that"
                " are given"
            )
        return members if in_order else sorted(members, key=lambda member: member.number)

    def _make_group(self, uuid: int, members: list[Handle], deadline: float) -> _C.Group:
        digest = hashlib.sha256("\n".join(map(str, members)).encode()).hexdigest()
        return self.session.create_group(
            name=f"roster-{uuid}-{digest[:16]}",
            ranks=[member.number for member in members],
            max_chunk_bytes=self._settings.chunk_bytes,
            timeout_ms=_milliseconds_until(deadline),
            wire=config.WIRES[self._options.wire],
            node_reduce=config.NODE_REDUCES.index(self._options.node_reduce) or config.NODE_REDUCE_BEST,
            min_ranks=min(self._options.min_ranks, len(members)),
            scale_sums=self._options.scale_sums,
            whole_op=self._options.whole_op,
            error_feedback=self._options.error_feedback,
        )

    def _meet(self, group: _C.Group, rank: int, deadline: float) -> dist.Store:
        """A store that these ranks alone have. Rank 0's process has it."""
        timeout_ms = _milliseconds_until(deadline)
        timeout = datetime.timedelta(milliseconds=timeout_ms)
        word = b""
        if rank == 0:
            host = self._address or membership.LOOPBACK
            self._store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timeout)
            word = f"{self._store.port} {host}".encode()
        word = group.sum_bytes(word.ljust(WORD_BYTES, b"\0"), timeout_ms).rstrip(b"\0")
        if rank != 0:
            port, host = word.decode().split(" ")
            self._store = dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=timeout)
        return self._store


def create_backend(group: inner.GroupDescription, given: _C.GroupOptions, identity: str = "") -> C10dBackend:
    """A backend of a group without ranks. Raises DistBackendError or ValueError."""
    settings = _settings()
    if getattr(given.inner, "enable_reconfigure", False):
        given.inner.enable_reconfigure = False  # inner backends are made anew
    wire, node_reduce, error_feedback = config.options_of_group(settings, given)
    settled = _C.GroupOptions(
        wire=wire,
        node_reduce=node_reduce,
        inner=given.inner,
        min_ranks=given.min_ranks,
        scale_sums=given.scale_sums,
        whole_op=given.whole_op,
        error_feedback=error_feedback,
    )
    settled._timeout = group.timeout
    settled.group_name = group.group_id
    settled.enable_reconfigure = True
    identity = identity or f"{socket.gethostname()} process {os.getpid()}"
    member = Member(group, settled, settings, identity)
    return _C.ShoalBackend(
        rank=group.group_rank,
        size=group.group_size,
        options=settled,
        session=member.session,
        group=None,
        cpu_inner=None,
        cuda_inner=None,
        blocking_wait=settings.blocking_wait,
        reconfigure=member.reconfigure,
        reconfigure_handle=member.handle,
    )


def _settings() -> config.Config:
    settings = membership.read_settings()
    if settings.scheduler is None:
        raise ValueError(
            "shoal: a process group that can be reconfigured needs a scheduler that outlives its ranks: start one with"
            " `shoal-scheduler`, servers with `shoal-server --scheduler HOST:PORT`, and set SHOAL_SCHEDULER=HOST:PORT"
        )
    if settings.job_name is None:
        raise ValueError(
            "shoal: a process group that can be reconfigured needs SHOAL_JOB_NAME, the same on all processes that are"
            " ever to be its ranks"
        )
    return settings


def _milliseconds_until(deadline: float) -> int:
    return max(1, int((deadline - time.monotonic()) * 1000))
