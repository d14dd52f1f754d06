"""The inner backends of a process group, which do all that the reduction servers do not: Gloo, and NCCL for CUDA."""

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

GroupDescription = dist.distributed_c10d._DistributedBackendOptions


def inner_backends(
    options: GroupDescription, given: C10dBackend.Options | None, address: str, devices: list | None = None
) -> tuple[C10dBackend, C10dBackend | None]:
    """Gloo, and NCCL where there are GPUs. `given` may be options of one of the two. Gloo uses `devices`, or those of
    its options, or else listens at `address`, or where torch would let it if that is empty. Raises TypeError."""
    is_for_nccl = dist.is_nccl_available() and isinstance(given, dist.ProcessGroupNCCL.Options)
    is_for_gloo = isinstance(given, dist.ProcessGroupGloo._Options)
    if not (is_for_nccl or is_for_gloo or given is None):
        raise TypeError(
            f"shoal: pg_options of type {type(given).__name__}: expected shoal.GroupOptions, or "
            "ProcessGroupNCCL.Options or ProcessGroupGloo._Options (they go to the inner backend), or None"
        )
    cpu_inner = _create_gloo(_options_of_inner(options, "cpu"), given if is_for_gloo else None, address, devices)
    if not _has_nccl():
        return cpu_inner, None
    return cpu_inner, _create_nccl(_options_of_inner(options, "cuda"), given if is_for_nccl else None)


def needs_common_store(given: C10dBackend.Options | None) -> bool:
    """Whether an inner backend needs a store that all ranks reach. torch's Gloo does not where it connects lazily."""
    return _has_nccl() or _foreign_gloo(given) is not None or has_devices(given)


def has_devices(given: C10dBackend.Options | None) -> bool:
    """Whether they are options of Gloo that say where it listens."""
    return isinstance(given, dist.ProcessGroupGloo._Options) and bool(given._devices)


def _has_nccl() -> bool:
    return torch.cuda.is_available() and dist.is_nccl_available()


def _options_of_inner(options: GroupDescription, device: str) -> GroupDescription:
    """Name, ranks and timeout are the group's; the keys in the store are apart."""
    inner = GroupDescription()
    for name in ("group_rank", "group_size", "timeout", "group_id", "global_ranks_in_group"):
        setattr(inner, name, getattr(options, name))
    if hasattr(options, "process_group"):  # not in torch 2.11
        inner.process_group = options.process_group
    inner.store = dist.PrefixStore(f"inner/{device}", options.store)
    return inner


def _registered_creator(name: str) -> Callable | None:
    """What torch makes backend `name` with; None: this torch has no registered creators for its own backends."""
    if hasattr(dist.Backend, "_ensure_backend_registered"):
        dist.Backend._ensure_backend_registered(name)
    plugin = dist.Backend._plugins.get(name.upper())
    return None if plugin is None else plugin.creator_fn


def _foreign_gloo(given: C10dBackend.Options | None) -> Callable | None:
    creator = _registered_creator("gloo")
    # torch's own has no use for options of Gloo, nor for our address.
    if isinstance(given, dist.ProcessGroupGloo._Options) or creator is None:
        return None
    return None if str(creator.__module__).startswith("torch.") else creator


def _create_gloo(
    options: GroupDescription, backend_options: C10dBackend.Options | None, address: str, devices: list | None
) -> C10dBackend:
    if (creator := _foreign_gloo(backend_options)) is not None:
        return creator(options, None)
    backend_options = backend_options or dist.ProcessGroupGloo._Options()
    if devices or not backend_options._devices:
        backend_options._devices = devices or gloo_devices(address)
    backend_options._timeout = options.timeout
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, backend_options)


def gloo_devices(address: str, lazy: bool | None = None) -> list:
    """Where Gloo listens, and its threads. Devices that connect lazily serve one process group, and end with it. None:
    as torch makes them."""
    how = {} if lazy is None else {"lazy_init": lazy}
    interfaces = list(filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")))
    gloo = dist.ProcessGroupGloo
    if interfaces:  # as torch makes them
        return [gloo.create_device(interface=interface, **how) for interface in interfaces]
    if address:  # torch would look up the node's name, which stands for 127.0.1.1 on many nodes
        return [gloo.create_device(hostname=address, **how)]
    return [gloo.create_default_device(**how)]


def _create_nccl(options: GroupDescription, backend_options: C10dBackend.Options | None) -> C10dBackend:
    backend_options = backend_options or dist.ProcessGroupNCCL.Options()
    backend_options._timeout = options.timeout  # torch's creator warns of another one
    creator = _registered_creator("nccl")
    if creator is not None:
        return creator(options, backend_options)
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupNCCL(options.store, options.group_rank, options.group_size, backend_options)
