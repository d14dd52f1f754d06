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
    """Gloo, and NCCL where there are GPUs. `given` may be options of one of the two. Gloo uses `devices`, or else
    listens at `address`, or where torch would let it if that is empty. Raises TypeError."""
    is_for_nccl = dist.is_nccl_available() and isinstance(given, dist.ProcessGroupNCCL.Options)
    is_for_gloo = isinstance(given, dist.ProcessGroupGloo._Options)
    if not (is_for_nccl or is_for_gloo or given is None):
        raise TypeError(
            f"shoal: pg_options of type {type(given).__name__}: expected shoal.GroupOptions, or "
            "ProcessGroupNCCL.Options or ProcessGroupGloo._Options (they go to the inner backend), or None"
        )
    cpu_inner = _create_gloo(_options_of_inner(options, "cpu"), given if is_for_gloo else None, address, devices)
    if not (torch.cuda.is_available() and dist.is_nccl_available()):
        return cpu_inner, None
    return cpu_inner, _create_nccl(_options_of_inner(options, "cuda"), given if is_for_nccl else None)


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


def _create_gloo(
    options: GroupDescription, backend_options: C10dBackend.Options | None, address: str, devices: list | None
) -> C10dBackend:
    creator = _registered_creator("gloo")
    # torch's own has no use for options of Gloo, nor for our address.
    if creator is not None and backend_options is None and not str(creator.__module__).startswith("torch."):
        return creator(options, None)
    backend_options = backend_options or dist.ProcessGroupGloo._Options()
    if not backend_options._devices:
        backend_options._devices = devices or gloo_devices(address)
    backend_options._timeout = options.timeout
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, backend_options)


def gloo_devices(address: str) -> list:
    """Where Gloo listens, and its threads."""
    interfaces = list(filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")))
    gloo = dist.ProcessGroupGloo
    if interfaces:  # as torch makes them
        return [gloo.create_device(interface=interface) for interface in interfaces]
    if address:  # torch would look up the node's name, which stands for 127.0.1.1 on many nodes
        return [gloo.create_device(hostname=address)]
    return [gloo.create_default_device()]


def _create_nccl(options: GroupDescription, backend_options: C10dBackend.Options | None) -> C10dBackend:
    backend_options = backend_options or dist.ProcessGroupNCCL.Options()
    backend_options._timeout = options.timeout  # torch's creator warns of another one
    creator = _registered_creator("nccl")
    if creator is not None:
        return creator(options, backend_options)
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupNCCL(options.store, options.group_rank, options.group_size, backend_options)
