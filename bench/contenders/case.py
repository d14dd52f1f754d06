"""What is measured and what came out, the same for every contender."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """All-reduces (sum, fp32, in place) of one size."""

    size_bytes: int
    iterations: int  # timed
    warmup: int
    in_flight: int = 1  # all-reduces at a time, each on a tensor of its own


@dataclasses.dataclass(frozen=True)
class Measured:
    op_times_us: list[float]  # of each timed all-reduce, the slowest rank's
    loop_us: float  # of the whole timed loop divided by its all-reduces, the slowest rank's
    cpu_us: float  # user and system time per timed all-reduce, summed over the ranks' processes
    wrong: int  # elements, over all ranks
    server_bytes: list[int] = dataclasses.field(default_factory=list)  # that rank 0 pushed to each server
    checks: int = 1  # all-reduces that the check before made of each tensor in flight
