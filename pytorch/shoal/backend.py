"""The c10d backend's registration and its factory."""

import functools
import os
import urllib.parse
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

try:
    from shoal import _C
except ImportError as error:
    raise ImportError(
        f"shoal's extension does not fit torch {torch.__version__} ({error}). It is compiled for one version of torch; "
        "install it again with `pip install --no-build-isolation --force-reinstall --no-deps ./pytorch`."
    ) from error

from shoal import config, meeting, membership

_registered = False


class GroupOptions(_C.GroupOptions):
    """The settings that may differ from group to group: pg_options of init_process_group, new_group and split_group,
    and backend_override of init_device_mesh.

    wire: "none", "bf16" or "fp16": how float32 tensors are sent; None: as the setting SHOAL_WIRE says.
    node_reduce: "auto", "off", "host" or "nccl": whether ranks on one node reduce among themselves; None: as
        SHOAL_NODE_REDUCE says.
    inner: options of the inner backend, ProcessGroupNCCL.Options or ProcessGroupGloo._Options; None: its defaults.

    Raises ValueError for any other value. wire and node_reduce must be equal on all ranks of the group.
    """

    def __init__(
        self, wire: str | None = None, node_reduce: str | None = None, inner: C10dBackend.Options | None = None
    ) -> None:
        if wire is not None and wire not in config.WIRES:
            raise ValueError(f"GroupOptions: wire={wire!r}: expected one of {', '.join(config.WIRES)}")
        if node_reduce is not None and node_reduce not in config.NODE_REDUCES:
            raise ValueError(
                f"GroupOptions: node_reduce={node_reduce!r}: expected one of {', '.join(config.NODE_REDUCES)}"
            )
        super().__init__(wire=wire, node_reduce=node_reduce, inner=inner)


def register() -> None:
    """Makes init_process_group("shoal") and init_method="shoal://..." work. Calling it again changes nothing."""
    global _registered
    if not _registered:
        dist.Backend.register_backend("shoal", create_backend, extended_api=True, devices=["cpu", "cuda"])
        dist.register_rendezvous_handler("shoal", _rendezvous)
        _registered = True


def create_backend(options: dist.distributed_c10d._DistributedBackendOptions, backend_options: object) -> C10dBackend:
    """Called by init_process_group and new_group, on the ranks of the group. The store in `options` becomes the part
    that belongs to the group."""
    ours = backend_options if isinstance(backend_options, _C.GroupOptions) else GroupOptions(inner=backend_options)
    if any(getattr(given, "enable_reconfigure", False) for given in (options, ours, ours.inner)):
        raise ValueError(
            "shoal: enable_reconfigure=True: the ranks of a group can't be exchanged while it lives. Leave it out; "
            "make another group with new_group for some of the ranks, or let torchrun --max-restarts start the job "
            "again when one is lost"
        )
    is_default = not options.global_ranks_in_group
    session = group = joined = None
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    wire, node_reduce = ours.wire or "none", ours.node_reduce or "auto"
    try:
        if options.group_size > 1:
            joined, options.store = membership.for_group(options)
            session = joined.session
            joined.open_devices()
            wire = ours.wire or joined.settings.wire
            node_reduce = ours.node_reduce or joined.settings.node_reduce
            group = session.create_group(
                name=options.group_id,
                ranks=list(options.global_ranks_in_group),
                max_chunk_bytes=joined.settings.chunk_bytes,
                timeout_ms=int(joined.join_timeout(options.timeout).total_seconds() * 1000),
                wire=wire,
                node_reduce=config.NODE_REDUCES.index(node_reduce) or config.NODE_REDUCE_BEST,
            )
        else:
            membership.check_settings()
            options.store = meeting.store_alone(options.store)
        cpu_inner, cuda_inner = _inner_backends(options, ours.inner)
        settled = GroupOptions(wire=wire, node_reduce=node_reduce, inner=ours.inner)
        settled._timeout = options.timeout
        settled.group_name = options.group_id
        settled.global_ranks_in_group = ranks
        return _C.ShoalBackend(
            rank=options.group_rank,
            size=options.group_size,
            options=settled,
            session=session,
            group=group,
            cpu_inner=cpu_inner,
            cuda_inner=cuda_inner,
            blocking_wait=joined is not None and joined.settings.blocking_wait,
            split=functools.partial(_split, ranks, options.group_rank),
        )
    except BaseException:
        if is_default and joined is not None:
            joined.give_up()  # the others may wait for this rank, so it can't wait for them
        elif group is not None:
            session.close_group(group)
        raise


def _split(
    job_ranks: list[int],
    rank: int,
    store: dist.Store,
    ranks: list[int],
    options: C10dBackend.Options,
    bound_device: torch.device | None,
) -> C10dBackend | None:
    """Called by split_group on every rank of a group: `rank` is this one's in it, `job_ranks` are the ranks of the job
    of all of its ranks, and those in `ranks` make up the new group, in this order. The group is bound to
    `bound_device`."""
    if rank not in ranks:
        return None
    child = dist.distributed_c10d._DistributedBackendOptions()
    child.store = store
    child.group_rank = ranks.index(rank)
    child.group_size = len(ranks)
    child.timeout = options._timeout
    child.group_id = options.group_name
    child.global_ranks_in_group = [job_ranks[member] for member in ranks]
    if bound_device is not None and hasattr(child, "process_group"):  # not in torch 2.11
        # torch makes the process group when it has the backend, and NCCL's creator looks for the device here.
        child.process_group = dist.ProcessGroup(store, child.group_rank, child.group_size)
        child.process_group.bound_device_id = bound_device
    return create_backend(child, options)


def _inner_backends(
    options: dist.distributed_c10d._DistributedBackendOptions, backend_options: C10dBackend.Options | None
) -> tuple[C10dBackend, C10dBackend | None]:
    """Gloo, and NCCL where there are GPUs. `backend_options` may be those of one of the two."""
    is_for_nccl = dist.is_nccl_available() and isinstance(backend_options, dist.ProcessGroupNCCL.Options)
    is_for_gloo = isinstance(backend_options, dist.ProcessGroupGloo._Options)
    if not (is_for_nccl or is_for_gloo or backend_options is None):
        raise TypeError(
            f"shoal: pg_options of type {type(backend_options).__name__}: expected shoal.GroupOptions, or "
            "ProcessGroupNCCL.Options or ProcessGroupGloo._Options (they go to the inner backend), or None"
        )
    cpu_inner = _create_gloo(_options_of_inner(options, "cpu"), backend_options if is_for_gloo else None)
    if not (torch.cuda.is_available() and dist.is_nccl_available()):
        return cpu_inner, None
    return cpu_inner, _create_nccl(_options_of_inner(options, "cuda"), backend_options if is_for_nccl else None)


def _options_of_inner(
    options: dist.distributed_c10d._DistributedBackendOptions, device: str
) -> dist.distributed_c10d._DistributedBackendOptions:
    """Name, ranks and timeout are the group's; the keys in the store are apart."""
    inner = dist.distributed_c10d._DistributedBackendOptions()
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
    options: dist.distributed_c10d._DistributedBackendOptions, backend_options: C10dBackend.Options | None
) -> C10dBackend:
    creator = _registered_creator("gloo")
    # torch's own has no use for options of Gloo, nor for our address.
    if creator is not None and backend_options is None and not str(creator.__module__).startswith("torch."):
        return creator(options, None)
    backend_options = backend_options or dist.ProcessGroupGloo._Options()
    if not backend_options._devices:
        interfaces = list(filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")))
        gloo, address = dist.ProcessGroupGloo, membership.address()
        if interfaces:  # as torch makes them
            backend_options._devices = [gloo.create_device(interface=interface) for interface in interfaces]
        elif address:  # torch would look up the node's name, which stands for 127.0.1.1 on many nodes
            backend_options._devices = [gloo.create_device(hostname=address)]
        else:
            backend_options._devices = [gloo.create_default_device()]
    backend_options._timeout = options.timeout
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, backend_options)


def _create_nccl(
    options: dist.distributed_c10d._DistributedBackendOptions, backend_options: C10dBackend.Options | None
) -> C10dBackend:
    backend_options = backend_options or dist.ProcessGroupNCCL.Options()
    backend_options._timeout = options.timeout  # torch's creator warns of another one
    creator = _registered_creator("nccl")
    if creator is not None:
        return creator(options, backend_options)
    backend_options.global_ranks_in_group = options.global_ranks_in_group
    backend_options.group_name = options.group_id
    return dist.ProcessGroupNCCL(options.store, options.group_rank, options.group_size, backend_options)


def _rendezvous(url: str, **kwargs):
    """init_method="shoal://HOST:PORT?job_name=...": Shoal's settings in the URL; ranks and store as with env://."""
    parts = urllib.parse.urlparse(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    rank, world_size = int(query.pop("rank", -1)), int(query.pop("world_size", -1))
    if parts.netloc:
        query["scheduler"] = parts.netloc
    membership.remember_query(query)
    yield from dist.rendezvous("env://", rank, world_size, **kwargs)
