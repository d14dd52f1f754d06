"""The c10d backend's registration and its factory."""

import dataclasses
import urllib.parse

import torch
import torch.distributed as dist

try:
    from shoal import _C
except ImportError as error:
    raise ImportError(
        f"shoal's extension does not fit torch {torch.__version__} ({error}). It is compiled for one version of torch; "
        "install it again with `pip install --no-build-isolation --force-reinstall --no-deps ./pytorch`."
    ) from error

from shoal import config, delegation, membership

_registered = False


@dataclasses.dataclass(frozen=True)
class GroupOptions:
    """pg_options of init_process_group and new_group: the settings that may differ from group to group."""

    wire: str | None = None  # "none", "bf16" or "fp16" (shoal.config); None: that of the setting SHOAL_WIRE
    node_reduce: str | None = None  # "auto", "off" or "host" (shoal.config); None: that of SHOAL_NODE_REDUCE
    inner: object = None  # options of the inner backend: ProcessGroupNCCL.Options or ProcessGroupGloo._Options

    def __post_init__(self) -> None:
        if self.wire is not None and self.wire not in config.WIRES:
            raise ValueError(f"GroupOptions: wire={self.wire!r}: expected one of {', '.join(config.WIRES)}")
        if self.node_reduce is not None and self.node_reduce not in config.NODE_REDUCES:
            raise ValueError(
                f"GroupOptions: node_reduce={self.node_reduce!r}: expected one of {', '.join(config.NODE_REDUCES)}"
            )


def register() -> None:
    """Makes init_process_group("shoal") and init_method="shoal://..." work. Calling it again changes nothing."""
    global _registered
    if not _registered:
        dist.Backend.register_backend("shoal", create_backend, extended_api=True, devices=["cpu", "cuda"])
        dist.register_rendezvous_handler("shoal", _rendezvous)
        _registered = True


def create_backend(options: dist.distributed_c10d._DistributedBackendOptions, backend_options: object) -> dist.Backend:
    """Called by init_process_group and new_group, on the ranks of the group."""
    ours = backend_options if isinstance(backend_options, GroupOptions) else GroupOptions(inner=backend_options)
    is_default = not options.global_ranks_in_group
    if is_default:
        membership.count_default_group()
    session = group = joined = None
    limits = delegation.Limits()
    try:
        if options.group_size > 1:
            joined = membership.for_group(options)
            session = joined.session
            group = session.create_group(
                name=options.group_id,
                ranks=list(options.global_ranks_in_group),
                max_chunk_bytes=joined.settings.chunk_bytes,
                timeout_ms=int(joined.join_timeout(options.timeout).total_seconds() * 1000),
                wire=ours.wire or joined.settings.wire,
                node_reduce=config.NODE_REDUCES.index(ours.node_reduce or joined.settings.node_reduce),
            )
            limits = delegation.agree(
                dist.PrefixStore(f"shoal_limits/{membership.generation()}", options.store),
                options.group_rank,
                joined.settings.inner_below,
                joined.join_timeout(options.timeout),
            )
        cpu_inner, cuda_inner = _inner_backends(options, ours.inner)
        return _C.ShoalBackend(
            rank=options.group_rank,
            size=options.group_size,
            timeout=options.timeout,
            session=session,
            group=group,
            cpu_inner=cpu_inner,
            cuda_inner=cuda_inner,
            cpu_inner_below=limits.cpu,
            cuda_inner_below=limits.cuda,
        )
    except BaseException:
        if is_default and joined is not None:
            joined.close()
        raise


def _inner_backends(
    options: dist.distributed_c10d._DistributedBackendOptions, backend_options: object
) -> tuple[dist.Backend, dist.Backend | None]:
    """Gloo, and NCCL where there are GPUs. `backend_options` may be those of one of the two."""
    store = dist.PrefixStore(f"shoal_inner/{membership.generation()}", options.store)
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    nccl_options = None
    if has_nccl:
        is_for_nccl = isinstance(backend_options, dist.ProcessGroupNCCL.Options)
        nccl_options = backend_options if is_for_nccl else dist.ProcessGroupNCCL.Options()
        nccl_options._timeout = timeout
        backend_options = None if is_for_nccl else backend_options
    if isinstance(backend_options, dist.ProcessGroupGloo._Options):
        backend_options._timeout = timeout
        cpu_inner = dist.ProcessGroupGloo(dist.PrefixStore("cpu", store), rank, size, backend_options)
    elif backend_options is None:
        cpu_inner = dist.ProcessGroupGloo(dist.PrefixStore("cpu", store), rank, size, timeout=timeout)
    else:
        raise TypeError(
            f"shoal: pg_options of type {type(backend_options).__name__}: expected shoal.GroupOptions, or "
            "ProcessGroupNCCL.Options or ProcessGroupGloo._Options (they go to the inner backend), or None"
        )
    if not has_nccl:
        return cpu_inner, None
    return cpu_inner, dist.ProcessGroupNCCL(dist.PrefixStore("cuda", store), rank, size, nccl_options)


def _rendezvous(url: str, **kwargs):
    """init_method="shoal://HOST:PORT?job_name=...": Shoal's settings in the URL; ranks and store as with env://."""
    parts = urllib.parse.urlparse(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    rank, world_size = int(query.pop("rank", -1)), int(query.pop("world_size", -1))
    if parts.netloc:
        query["scheduler"] = parts.netloc
    membership.remember_query(query)
    yield from dist.rendezvous("env://", rank, world_size, **kwargs)
