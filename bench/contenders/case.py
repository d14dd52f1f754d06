"""What is measured and what came out, the same for every contender."""

import dataclasses

# Of a model whose training steps are measured. Each is a bucket of DistributedDataParallel: the gradients of one layer
# are exchanged while those before it are computed.
LAYERS = 25


@dataclasses.dataclass(frozen=True)
class Case:
    """All-reduces (sum, fp32, in place) of one size. Under DistributedDataParallel they are the buckets of a model with
    LAYERS layers whose gradients have that size together."""

    size_bytes: int
    iterations: int  # timed
    warmup: int
    in_flight: int = 1  # all-reduces at a time, each on a tensor of its own
    # Of training steps: what the backward pass computes. The forward pass takes half of that. As on a GPU it costs no
    # processor: the layers sleep.
    backward_s: float = 0.0

    def step_s(self, exchange_s: float) -> float:
        """How long a step takes at the least, if the gradients alone take so long to be exchanged: the exchange begins
        with the last layer's and ends after the first layer's."""
        exchange_begins = self.backward_s / LAYERS
        return self.backward_s / 2 + max(self.backward_s + exchange_s / LAYERS, exchange_begins + exchange_s)


@dataclasses.dataclass(frozen=True)
class Measured:
    op_times_us: list[float]  # of each timed all-reduce, the slowest rank's
    loop_us: float  # of the whole timed loop divided by its all-reduces, the slowest rank's
    cpu_us: float  # user and system time per timed all-reduce, summed over the ranks' processes
    wrong: int  # elements, over all ranks
    server_bytes: list[int] = dataclasses.field(default_factory=list)  # that rank 0 pushed to each server
    checks: int = 1  # all-reduces that the check before made of each tensor in flight
