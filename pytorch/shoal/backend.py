"""The c10d backend's registration and its factory."""

import functools
import urllib.parse

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend as C10dBackend

from shoal import plugin

try:
    from shoal import _C
except plugin.NoPluginError:
    raise
except ImportError as error:
    raise ImportError(
        f"shoal's extension does not fit torch {torch.__version__} ({error}). It is compiled for one version of torch; "
        "install it again with `pip install --no-build-isolation --force-reinstall --no-deps ./pytorch`."
    ) from error

from shoal import config, inner, meeting, membership, roster

_registered = False


class GroupOptions(_C.GroupOptions):
    """The settings that may differ from group to group: pg_options of init_process_group, new_group and split_group,
    and backend_override of init_device_mesh.

    wire: "none", "fp16", "bf16", "int8" or "fp8": how float32 tensors are sent; None: as the setting SHOAL_WIRE says.
    node_reduce: "auto", "off", "host" or "nccl": whether ranks on one node reduce among themselves; None: as
        SHOAL_NODE_REDUCE says.
    inner: options of the inner backend, ProcessGroupNCCL.Options or ProcessGroupGloo._Options; None: its defaults.
    on_rank_loss: of a group with enable_reconfigure. "fail": its ops end with an error; "continue": all-reduces go on
        with the ranks that are left, those that are open too, as long as there are `min_ranks`.
    min_ranks: of "continue".
    scale_sums: of "continue": a sum of floating numbers that is without the contributions of some ranks is scaled up to
        all of them, as DistributedDataParallel needs it, which divides by their number.
    whole_op: of "continue": an all-reduce during which a rank is lost is repeated if some of its elements have that
        rank's contribution and others not. Takes a copy of each tensor, and all-reduces of the group no longer overlap.
        Not for tensors on devices.
    error_feedback: what the wire's rounding takes from a contribution is added to the next one at the same place, as in
        a gradient at each step; shoal.ErrorFeedback saves it. Takes a float32 number for each element. Ranks do not
        reduce within their nodes then. Not for tensors on devices. May differ from rank to rank.

    Raises ValueError for any other value. All but `inner` must be equal on all ranks of the group.
    """

    def __init__(
        self,
        wire: str | None = None,
        node_reduce: str | None = None,
        inner: C10dBackend.Options | None = None,
        on_rank_loss: str = "fail",
        min_ranks: int = 1,
        scale_sums: bool = True,
        whole_op: bool = False,
        error_feedback: bool = False,
    ) -> None:
        if wire is not None and wire not in config.WIRES:
            raise ValueError(f"GroupOptions: wire={wire!r}: expected one of {', '.join(config.WIRES)}")
        if node_reduce is not None and node_reduce not in config.NODE_REDUCES:
            raise ValueError(
                f"GroupOptions: node_reduce={node_reduce!r}: expected one of {', '.join(config.NODE_REDUCES)}"
            )
        if on_rank_loss not in ("fail", "continue"):
            raise ValueError(f"GroupOptions: on_rank_loss={on_rank_loss!r}: expected one of fail, continue")
        if min_ranks < 1:
            raise ValueError(f"GroupOptions: min_ranks={min_ranks!r}: expected a number of at least 1")
        if error_feedback and node_reduce not in (None, "off"):
            raise ValueError(
                f"GroupOptions: error_feedback=True with node_reduce={node_reduce!r}: ranks with error feedback do not"
                " reduce within their nodes; leave node_reduce out"
            )
        goes_on = on_rank_loss == "continue"
        super().__init__(
            wire=wire,
            node_reduce="off" if error_feedback else node_reduce,
            inner=inner,
            min_ranks=min_ranks if goes_on else 0,
            scale_sums=goes_on and scale_sums,
            whole_op=goes_on and whole_op,
            error_feedback=error_feedback,
        )


class ErrorFeedback:
    """What a group with GroupOptions(error_feedback=True) has kept of this rank's contributions, for checkpoints.

    group: None: the default group. Raises DistBackendError if the group has no error feedback.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Of each tensor that was reduced, in the order in which they came first; while no all-reduce is under way."""
        return {str(number): values for number, values in enumerate(self._backend.error_feedback())}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Before the group's first all-reduce. Each of the values is for the first tensor of as many elements."""
        self._backend.add_error_feedback([state[key] for key in sorted(state, key=int)])


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
        return roster.create_backend(options, ours)
    if ours.min_ranks > 0:
        raise ValueError(
            'shoal: on_rank_loss="continue" is for groups whose ranks may change: pass enable_reconfigure=True to '
            "init_process_group as well, with torch 2.14 or later"
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
            wire, node_reduce, error_feedback = config.options_of_group(joined.settings, ours)
            group = session.create_group(
                name=options.group_id,
                ranks=list(options.global_ranks_in_group),
                max_chunk_bytes=joined.settings.chunk_bytes,
                timeout_ms=int(joined.join_timeout(options.timeout).total_seconds() * 1000),
                wire=config.WIRES[wire],
                node_reduce=config.NODE_REDUCES.index(node_reduce) or config.NODE_REDUCE_BEST,
                error_feedback=error_feedback,
            )
        else:
            membership.check_settings()
            options.store = meeting.store_alone(options.store)
        cpu_inner, cuda_inner = inner.inner_backends(options, ours.inner, membership.address())
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


def _rendezvous(url: str, **kwargs):
    """init_method="shoal://HOST:PORT?job_name=...": Shoal's settings in the URL; ranks and store as with env://."""
    parts = urllib.parse.urlparse(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    rank, world_size = int(query.pop("rank", -1)), int(query.pop("world_size", -1))
    if parts.netloc:
        query["scheduler"] = parts.netloc
    membership.remember_query(query)
    yield from dist.rendezvous("env://", rank, world_size, **kwargs)
