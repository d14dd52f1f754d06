"""Limits of open files: the programs raise theirs as far as they may, and say so where that is too low to start."""

import pathlib
import re
import resource
from collections.abc import Callable

import pytest

from hosts.cluster import Cluster, program
from job_runs import digests

TOO_FEW = 20
ENOUGH = 4096


def allow(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_programs_raise_a_low_soft_limit_to_the_hard_one(cluster: Cluster):
    cluster.before_exec = allow(TOO_FEW, ENOUGH)
    scheduler = cluster.start_scheduler()
    server = cluster.start_server("alpha")
    perf = cluster.start_perf_rank(0, 2)  # waits for the other rank
    cluster.before_exec = None
    assert len(digests(cluster.start_ranks(2))) == 1
    for process in (scheduler, server, perf):
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(rf"^Max open files +{ENOUGH} +{ENOUGH} ", limits, re.MULTILINE), limits


@pytest.mark.parametrize("who", ["scheduler", "server", "rank"])
def test_a_hard_limit_that_is_too_low_is_named_with_what_to_do(cluster: Cluster, who: str):
    if who != "scheduler":
        cluster.start_scheduler()
    cluster.before_exec = allow(TOO_FEW, TOO_FEW)
    if who == "scheduler":
        process = cluster.start([program("shoal-scheduler"), "--listen", "127.0.0.1:0"])
    else:
        process = cluster.launch_server("--name", "alpha") if who == "server" else cluster.start_rank(0, 2)
    shortage = rf"files and sockets open, may have {TOO_FEW}, and wants \d+ more; raise the limit with ulimit -n"
    process.wait_for_line(shortage)
    assert process.wait() != 0
