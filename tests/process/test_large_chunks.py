"""Chunks of which few fit the memory that a rank lends to the servers of its node: whoever is late, slow or stopped,
all others go on (clause T11 of net/transport.h, docs/adr/0018). Real processes; a window is two chunks of 16 MiB."""

import pathlib
import signal
import sys

from hosts.cluster import LIBRARY, Cluster, sanitizer_environment
from hosts.process import Process

PROGRAM = pathlib.Path(__file__).with_name("large_chunks_program.py")
SLOT_MEMORY = ("--slot-memory", "1GiB")  # of which only what is used costs memory
TIMEOUT_MS = "24000"
PATIENCE_S = 60.0  # for what takes three seconds on an idle machine


def start_ranks(cluster: Cluster, servers: int, *options: str) -> list[Process]:
    ranks = [
        cluster.start(
            [sys.executable, str(PROGRAM), "--library", str(LIBRARY), "--scheduler", cluster.scheduler_address]
            + ["--world-size", "2", "--rank", str(rank), "--min-servers", str(servers), "--timeout-ms", TIMEOUT_MS]
            + list(options),
            sanitizer_environment(),
        )
        for rank in range(2)
    ]
    for rank in ranks:
        rank.wait_for_line("^ready$", PATIENCE_S)
    return ranks


def let_end(ranks: list[Process], ops: int) -> None:
    for rank in ranks:
        rank.say("wait")
        rank.say("end")
    for rank in ranks:
        assert rank.wait(PATIENCE_S) == 0, rank
        assert rank.output.count("right") == ops, rank
        assert "wrong" not in rank.output, rank


def test_one_group_whose_windows_are_six_times_what_a_rank_lends(cluster: Cluster):
    cluster.start_scheduler()
    for number in range(12):
        cluster.start_server(f"server-{number}", "--slot-memory", "256MiB")
    ranks = start_ranks(cluster, 12, "--mib", "400")
    for rank in ranks:
        rank.say("0")
    let_end(ranks, 1)


def test_groups_that_ranks_call_in_different_orders_do_not_wait_for_each_other(cluster: Cluster):
    cluster.start_scheduler()
    for name in ("alpha", "beta", "gamma"):
        cluster.start_server(name, *SLOT_MEMORY)
    ranks = start_ranks(cluster, 3, "--groups", "2", "--mib", "96")
    # Each rank has lent all that it has for a group in which the other one is late.
    for rank, number in zip(ranks, (0, 1)):
        rank.say(str(number))
        rank.wait_for_line(f"^started {number}$")
    for rank, number in zip(ranks, (1, 0)):
        rank.say(str(number))
    let_end(ranks, 2)


def test_a_server_that_stands_still_with_all_that_was_lent_is_named_and_then_done_without(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=12_000)
    servers = [cluster.start_server(name, *SLOT_MEMORY) for name in ("alpha", "beta")]
    ranks = start_ranks(cluster, 2, "--groups", "2", "--mib", "64")
    servers[0].send(signal.SIGSTOP)
    for rank in ranks:
        rank.say("0")
        rank.say("1")
    for rank in ranks:
        line = rank.wait_for_line("(waiting|waited) .*").group(0)
        assert " for server alpha " in line, line
    # Its lease runs out, and its chunks are pushed to the other server.
    for rank in ranks:
        rank.say("wait")
    for rank in ranks:
        rank.wait_for_line("^right$", PATIENCE_S)
    # What it finds when it goes on is over.
    servers[0].send(signal.SIGCONT)
    cluster.wait_for_server("alpha", "live")
    for rank in ranks:
        rank.say("1")
    let_end(ranks, 3)
