"""Shoal for PyTorch: importing this package registers the torch.distributed backend "shoal".

    import shoal
    torch.distributed.init_process_group("shoal")

With nothing else running, rank 0 runs a scheduler in its process, and the first rank of each node runs an in-process
reduction server. With SHOAL_SCHEDULER=HOST:PORT the servers of that scheduler's cluster are used. `python -m
shoal.info` prints the settings.
"""

from shoal.backend import ErrorFeedback, GroupOptions, register
from shoal.membership import statistics

__all__ = ["ErrorFeedback", "GroupOptions", "register", "statistics"]
__version__ = "0.1.0"

register()
