"""What stands for an inner backend, in a rank, before its group is made."""

import torch

import shoal


def use_one_for_gpus_that_sends_nothing() -> None:
    """torch's own stands for NCCL, which has nothing to do here. Like torch 2.15's NCCL it takes no completion hook."""
    make_inner = shoal.backend._inner_backends
    fake = torch._C._distributed_c10d.FakeProcessGroup
    shoal.backend._inner_backends = lambda options, inner: (
        make_inner(options, inner)[0],
        fake._create_internal(options.group_rank, options.group_size),
    )
