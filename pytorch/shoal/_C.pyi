"""The compiled part of the package (pytorch/src/module.cc). Programs use `shoal` and torch.distributed instead."""

import datetime
from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import Backend, Store, Work

abi_version: int
FAILED_PRECONDITION: int  # of errors' shoal_code
built_for_torch: str

def load_library(path: str) -> None: ...
def library_path() -> str: ...
def library_version() -> str: ...

class Group:
    def sum_bytes(self, contribution: bytes, timeout_ms: int) -> bytes: ...
    def abort(self, reason: str) -> None: ...

class Session:
    def __init__(self, *, on_closed: Callable[[], None], **kwargs: Any) -> None: ...  # fields of shoal_worker_options
    def open_device(self, device: int) -> None: ...
    # The others are fields of shoal_group_options.
    def create_group(self, *, name: str, ranks: list[int], **kwargs: int) -> Group: ...
    def close_group(self, group: Group) -> None: ...
    def close(self) -> None: ...
    def give_up(self, reason: str) -> None: ...
    @property
    def forked(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    def statistics(self) -> dict[str, Any]: ...

class Service:
    @property
    def address(self) -> str: ...
    @property
    def live_ranks(self) -> int: ...  # 2**32 - 1: it is not known
    def stop(self) -> None: ...

def describe_node(*, net_device: str, peer: str) -> tuple[str, str, str]: ...  # identity, address, why there is none
def draw_keys() -> dict[str, dict[str, str]]: ...  # role: tls_cert, tls_key and tls_ca, as texts
def start_scheduler(**kwargs: Any) -> Service: ...  # fields of shoal_scheduler_options
def start_server(**kwargs: Any) -> Service: ...  # fields of shoal_server_options

class GroupOptions(Backend.Options):
    def __init__(
        self,
        *,
        wire: str | None,
        node_reduce: str | None,
        inner: Backend.Options | None,
        min_ranks: int = 0,
        scale_sums: bool = False,
        whole_op: bool = False,
        error_feedback: bool = False,
    ) -> None: ...
    @property
    def min_ranks(self) -> int: ...
    @property
    def scale_sums(self) -> bool: ...
    @property
    def whole_op(self) -> bool: ...
    @property
    def error_feedback(self) -> bool: ...
    @property
    def wire(self) -> str | None: ...
    @property
    def node_reduce(self) -> str | None: ...
    @property
    def inner(self) -> Backend.Options | None: ...

class AllReduceWork(Work):
    @property
    def contributors(self) -> tuple[int, int] | None: ...  # at least and at most; None: not known

class ShoalBackend(Backend):
    def __init__(
        self,
        *,
        rank: int,
        size: int,
        options: GroupOptions,
        session: Session | None,
        group: Group | None,
        cpu_inner: Backend | None,
        cuda_inner: Backend | None,
        blocking_wait: bool,
        split: Callable[[Store, list[int], Backend.Options], Backend | None] | None = None,
        reconfigure: Callable[[ShoalBackend, int, list[str], bool, datetime.timedelta | None], None] | None = None,
        reconfigure_handle: str = "",
    ) -> None: ...
    def failure(self) -> str: ...  # "": none of the library's
    def error_feedback(self) -> list[torch.Tensor]: ...
    def add_error_feedback(self, values: list[torch.Tensor]) -> None: ...
    # These are not there with torch 2.11.
    def rejoin(self, session: Session, reconfigure_handle: str) -> None: ...
    def end_roster(self) -> None: ...
    def begin_roster(
        self, *, rank: int, ranks_of_job: list[int], group: Group | None, cpu_inner: Backend, cuda_inner: Backend | None
    ) -> None: ...
    def perform_nocolor_split(self, device: torch.device) -> None: ...
