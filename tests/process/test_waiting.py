"""A process that waits for long says so on standard error, and names the party that it waits for. Real processes."""

import re
import signal
import time

from hosts.cluster import Cluster
from hosts.node import LOOPBACK
from hosts.process import Process
from job_runs import digests, let_go_on, refusal, wait_for_line_of_all

TIMEOUT_MS = "16000"  # the first line comes after a quarter of it
LINE = r'^shoal: rank 0 of job "test": waiting '
WAITED = r'^shoal: rank 0 of job "test": waited [\d.]+ s '


def start_job(cluster: Cluster, world_size: int = 2) -> list[Process]:
    ranks = cluster.start_ranks(world_size, "--rounds", "2", "--hold", "--timeout-ms", TIMEOUT_MS)
    wait_for_line_of_all(ranks, "^round 0 done$")
    return ranks


def let_end(ranks: list[Process]) -> None:
    let_go_on(ranks, 2)
    assert len(digests(ranks)) == 1


def test_f17_a_rank_that_stops_calling_is_named(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = start_job(cluster, 3)
    for rank in ranks[:2]:
        rank.say()
    cluster.told("F17", "", WAITED + r"for rank 2 on ", ranks[0])
    ranks[0].wait_for_line(
        WAITED + r"for rank 2 on \S+ \([\d.]+ s left\): "
        r'all-reduce 2 of group "world" \(1000 float32\), 0 of \d+ chunks are back'
    )
    ranks[2].say()
    for rank in ranks:
        rank.say()
    assert len(digests(ranks)) == 1


def test_a_server_that_stands_still_is_named(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=60_000)
    server = cluster.start_server("alpha")
    ranks = start_job(cluster)
    server.send(signal.SIGSTOP)
    for rank in ranks:
        rank.say()
    ranks[0].wait_for_line(WAITED + r"for server alpha \(\S+\) \(no answer\) \([\d.]+ s left\): ")
    server.send(signal.SIGCONT)
    let_end(ranks)


def test_a_lost_server_and_a_scheduler_that_is_away_are_named(cluster: Cluster):
    scheduler = cluster.start_scheduler(lease_ttl_ms=3000)
    servers = [cluster.start_server(name) for name in ("alpha", "beta")]
    ranks = cluster.start_ranks(
        2, "--rounds", "2", "--hold", "--timeout-ms", "60000", "--min-servers", "2", "--count", "300000"
    )
    wait_for_line_of_all(ranks, "^round 0 done$")
    scheduler.send(signal.SIGSTOP)
    servers[0].send(signal.SIGKILL)
    for rank in ranks:
        rank.say()
    ranks[0].wait_for_line(WAITED + r"for a new map from the scheduler \(server alpha \(\S+\) was lost: .*\)")
    ranks[0].wait_for_line(
        WAITED + rf"for the scheduler at {re.escape(cluster.scheduler_address)} \(.*\): open groups go on"
    )
    scheduler.send(signal.SIGCONT)
    ranks[0].wait_for_line('^shoal: rank 0 of job "test": the scheduler at .* is back after')
    let_end(ranks)


def test_f6_a_job_without_any_server_names_the_lost_one_and_waits_for_a_new_map(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    server = cluster.start_server("alpha")
    ranks = start_job(cluster)
    server.send(signal.SIGKILL)
    cluster.wait_for_server("alpha", "lost")
    (cluster_map,) = cluster.shoalctl("map")
    assert cluster_map.get("shards", []) == [], "no server is left"
    for rank in ranks:
        rank.say()
    cluster.told("F6", "", r"for a new map from the scheduler \(server alpha \(\S+\) was lost", ranks[0])
    for number, rank in enumerate(ranks):
        rank.wait_for_line(
            rf'^shoal: rank {number} of job "test": waited [\d.]+ s for a new map from the scheduler '
            r'\(server alpha \(\S+\) was lost: [^)]+\) \([\d.]+ s left\): all-reduce 2 of group "world" '
            r"\(1000 float32\), 0 of 1 chunks are back$"
        )
    cluster.start_server("alpha")
    let_end(ranks)


def test_f10_a_rank_without_its_results_is_named_while_the_others_wait_to_leave(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=60_000)
    cluster.start_server("alpha")
    ranks = start_job(cluster)
    ranks[1].say()
    # Its chunk is at the server: the others get their results, and it stands still before it takes its own.
    ranks[1].wait_for_line(r'^shoal: rank 1 of job "test": waited [\d.]+ s for rank 0 on ')
    ranks[1].send(signal.SIGSTOP)
    for _ in range(2):
        ranks[0].say()
    ranks[0].wait_for_line("^digest ")
    ranks[0].wait_for_line(
        WAITED + r'for rank 1 on \S+ \([\d.]+ s left\): group "world" is closed here but stays '
        "until all ranks have their results of all-reduce 2$"
    )
    cluster.told("F10", "", r"for rank 1 .*is closed here but stays until all ranks have their results", ranks[0])
    ranks[1].send(signal.SIGCONT)
    ranks[1].say()
    assert len(digests(ranks)) == 1
    assert "left group" not in ranks[0].output


def test_a_rank_that_does_not_come_is_named_while_the_others_wait(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    cluster.start_server("alpha")
    first = cluster.start_rank(0, 2, "--timeout-ms", TIMEOUT_MS)
    first.wait_for_line(
        r'^shoal: rank 0 of job "test": group "world": waited [\d.]+ s for rank 1 \(never joined the job\)'
        r" \([\d.]+ s left\)$"
    )
    assert len(digests([first, cluster.start_rank(1, 2)])) == 1


def test_missing_servers_are_counted_while_a_rank_waits(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    rank = cluster.start_rank(0, 1, "--min-servers", "2", "--timeout-ms", TIMEOUT_MS)
    rank.wait_for_line(WAITED + r"for reduction servers \([\d.]+ s left\): 1 of 2 are registered with the scheduler at")
    assert "\njob test: waits for servers: 1 of 2 registered\n" in cluster.shoalctl_text("jobs")
    cluster.start_server("beta")
    assert len(digests([rank])) == 1


def test_a_scheduler_that_does_not_answer_is_named(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    cluster.start_server("alpha")
    scheduler.send(signal.SIGSTOP)
    rank = cluster.start_rank(0, 1, "--timeout-ms", "30000")
    rank.wait_for_line(WAITED + rf"for a scheduler at {re.escape(cluster.scheduler_address)} \([\d.]+ s left\): ")
    scheduler.send(signal.SIGCONT)
    assert len(digests([rank])) == 1


def test_a_scheduler_that_is_not_there_is_named(cluster: Cluster):
    cluster.scheduler_address = f"{LOOPBACK}:1"
    rank = cluster.start_rank(0, 1, "--timeout-ms", "4000")
    rank.wait_for_line(WAITED + rf"for a scheduler at {LOOPBACK}:1 \([\d.]+ s left\): Connection refused")
    assert rank.wait() == 1


def test_f21_a_rank_that_gives_up_while_no_server_is_left_is_named_to_the_others_at_once(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    server = cluster.start_server("alpha")
    options = ["--rounds", "2", "--hold", "--timeout-ms"]
    impatient = cluster.start_rank(0, 2, *options, "8000")
    patient = cluster.start_rank(1, 2, *options, "60000")
    wait_for_line_of_all([impatient, patient], "^round 0 done$")
    server.send(signal.SIGKILL)
    cluster.wait_for_server("alpha", "lost")
    let_go_on([impatient, patient])
    text = refusal(impatient)
    ended_at = time.monotonic()
    assert text.startswith("DEADLINE_EXCEEDED") and "server alpha" in text
    told = refusal(patient)
    assert time.monotonic() - ended_at < 2
    gave_up = r'rank 0 on \S+: all-reduce 2 of group "world" .*is not done after 8(\.\d)? s'
    assert re.match(f"ABORTED: {gave_up}", told), told
    cluster.told("F21", "group-failed", rf'^group "world" of job "test": {gave_up}')
    cluster.told("F21", "job-failed", rf'^job "test": group "world": {gave_up}')
