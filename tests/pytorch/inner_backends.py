"""What stands for an inner backend, in a rank, before its group is made."""

import torch

import shoal


def use_one_for_gpus_that_sends_nothing() -> None:
    """torch's own stands for NCCL, which has nothing to do here. Like torch 2.15's NCCL it takes no completion hook."""
    make_inner = shoal.inner.inner_backends
    fake = torch._C._distributed_c10d.FakeProcessGroup
    shoal.inner.inner_backends = lambda options, given, address: (
        make_inner(options, given, address)[0],
        fake._create_internal(options.group_rank, options.group_size),
    )
