"""Ranks of a job through real servers: the bits of the sums, and what follows when somebody is missing or dies."""

import json
import re
import signal
import time

import pytest

from hosts.cluster import SERVER_LISTENS, Cluster
from hosts.node import LOOPBACK
from garbage import pour_garbage
from job_runs import digests, let_go_on, refusal, wait_for_line_of_all

WORLD_SIZE = 4
SHORT_TIMEOUT_MS = "3000"


def test_i1_same_bits_for_any_number_of_servers_and_chunk_size(cluster: Cluster):
    count = ["--count", "300007"]  # 1.2 MB: more than the largest chunk, and no multiple of one
    found: dict[str, set[str]] = {}
    cluster.start_scheduler()
    for servers, chunk_sizes in [(1, [65536, 65536]), (2, [16384, 65536, 1 << 20]), (4, [65536])]:
        while len(cluster.servers()) < servers:
            cluster.start_server(f"server-{len(cluster.servers())}")
        for number, chunk_bytes in enumerate(chunk_sizes):
            job = f"servers-{servers}-bytes-{chunk_bytes}-run-{number}"
            options = ["--job", job, "--chunk-bytes", str(chunk_bytes), "--min-servers", str(servers), *count]
            found[job] = digests(cluster.start_ranks(WORLD_SIZE, *options))
    node = cluster.start_rank(0, WORLD_SIZE, "--own-servers", "2", "--min-servers", "2", *count)
    cluster.scheduler_address = node.wait_for_line(r"^scheduler at (\S+)$").group(1)
    others = [cluster.start_rank(rank, WORLD_SIZE, "--min-servers", "2", *count) for rank in range(1, WORLD_SIZE)]
    found["two servers inside rank 0"] = digests(others)
    node.say()
    found["rank 0 itself"] = digests([node])
    assert len(set.union(*found.values())) == 1, json.dumps({job: sorted(values) for job, values in found.items()})


@pytest.mark.parametrize("wire", ["bf16", "int8", "fp8"])
def test_i1_same_bits_over_a_narrow_wire_for_any_number_of_servers_and_chunk_size(cluster: Cluster, wire: str):
    count = ["--count", "300007", "--wire", wire]
    found: dict[str, set[str]] = {}
    cluster.start_scheduler()
    for servers, chunk_sizes in [(1, [65536]), (3, [16384, 1 << 20])]:
        while len(cluster.servers()) < servers:
            cluster.start_server(f"server-{len(cluster.servers())}")
        for chunk_bytes in chunk_sizes:
            job = f"servers-{servers}-bytes-{chunk_bytes}"
            options = ["--job", job, "--chunk-bytes", str(chunk_bytes), "--min-servers", str(servers), *count]
            found[job] = digests(cluster.start_ranks(WORLD_SIZE, *options))
    assert len(set.union(*found.values())) == 1, json.dumps({job: sorted(values) for job, values in found.items()})
    plain = digests(cluster.start_ranks(WORLD_SIZE, "--count", "300007", "--min-servers", "3"))
    assert plain.isdisjoint(set.union(*found.values())), "the wire was not narrowed"


def test_ranks_that_differ_on_the_wire_are_named(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = [cluster.start_rank(0, 2), cluster.start_rank(1, 2, "--wire", "bf16")]
    for rank in ranks:
        text = refusal(rank)
        assert text.startswith("INVALID_ARGUMENT")
        assert re.search(r"rank 0 gave .* wire none", text) and re.search(r"rank 1 gave .* wire bf16", text)


def test_f13_ranks_that_differ_on_an_option_that_all_must_share_are_named(cluster: Cluster):
    text = "checksums is on on rank 0 and off on rank 1"
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = [cluster.start_rank(0, 2), cluster.start_rank(1, 2, "--no-checksums")]
    words = {refusal(rank) for rank in ranks}
    # Either may have asked first.
    mirrored = re.sub(r"is (\w+) on rank 0 and (\w+) on rank 1", r"is \2 on rank 1 and \1 on rank 0", text)
    assert all(word.startswith("INVALID_ARGUMENT") and (text in word or mirrored in word) for word in words), words
    cluster.told("F13", "job-failed", rf'^job "test": .*({re.escape(text)}|{re.escape(mirrored)})')


def test_f13_ranks_that_differ_on_an_op_are_named(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    for rank in [cluster.start_rank(0, 2, "--count", "1000"), cluster.start_rank(1, 2, "--count", "2000")]:
        text = refusal(rank)
        assert all(f"rank {number}" in text for number in (0, 1)) and "1000" in text and "2000" in text, text
    cluster.told("F13", "group-failed", r'^group "world" of job "test": .*disagree on op 1')


def test_f14_a_rank_that_stops_calling_is_named_at_the_deadline(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold", "--timeout-ms", SHORT_TIMEOUT_MS)
    wait_for_line_of_all(ranks, "^round 0 done$")
    ranks[0].say()
    text = refusal(ranks[0])
    assert text.startswith("DEADLINE_EXCEEDED") and "rank 1" in text, text
    at_deadline = r'^group "world" of job "test": rank 0 on .*is not done after 3(\.\d)? s.*rank 1'
    cluster.told("F14", "group-failed", at_deadline)
    load = cluster.shoalctl("jobs")[0]["jobs"][0]["load"]
    assert int(load["ops_failed"]) == 1, "no heartbeat was due after it"


def test_i1_same_bits_over_shared_memory_and_over_the_network(cluster: Cluster):
    """By ranks that may share memory with the server; 1 is told not to in a mixed job, the server in the last one."""
    cluster.start_scheduler(lease_ttl_ms=600)
    server = cluster.start_server("alpha")
    found: dict[str, set[str]] = {}
    for job, network_ranks in [("shared-memory", []), ("network", range(WORLD_SIZE)), ("mixed", [1])]:
        ranks = []
        for rank in range(WORLD_SIZE):
            options = ["--job", job, "--count", "300007", "--chunk-bytes", "65536", "--rounds", "2", "--hold"]
            ranks.append(cluster.start_rank(rank, WORLD_SIZE, *options, *["--network-only"] * (rank in network_ranks)))
        wait_for_line_of_all(ranks, "^round 0 done$")
        by_shared_memory = WORLD_SIZE - len(network_ranks)

        def is_shown(count: int = by_shared_memory) -> bool:
            load = cluster.servers()["alpha"].get("load", {})
            return (load.get("peers", 0), load.get("shared_memory_peers", 0)) == (WORLD_SIZE, count)

        cluster.wait_until(is_shown, f"{by_shared_memory} of the peers share memory")
        server.wait_for_line(f"{WORLD_SIZE} connected, {by_shared_memory} of them by shared memory")
        for rank in ranks:
            rank.say()
            rank.say()
        found[job] = digests(ranks)
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    cluster.start_server("beta", "--network-only")
    options = ["--job", "network-server", "--count", "300007", "--chunk-bytes", "65536", "--rounds", "2"]
    found["network server"] = digests(cluster.start_ranks(WORLD_SIZE, *options))
    cluster.wait_until(lambda: int(cluster.servers()["beta"].get("load", {}).get("bytes_out", 0)) > 0, "beta served")
    assert "shared memory" not in cluster.servers()["beta"]["transports"]
    assert "shared memory" in cluster.servers()["alpha"]["transports"]
    assert len(set.union(*found.values())) == 1, json.dumps({job: sorted(values) for job, values in found.items()})


def test_chunks_are_spread_over_servers_to_within_one(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=600)
    names = ["a", "b", "c"]
    for name in names:
        cluster.start_server(name)
    count = 409_607
    digests(cluster.start_ranks(2, "--count", str(count), "--chunk-bytes", "16384", "--min-servers", "3"))

    def loads(counter: str) -> list[int]:
        servers = cluster.servers()
        return [int(servers[name].get("load", {}).get(counter, 0)) for name in names]

    bytes_pushed = 2 * 4 * count
    cluster.wait_until(lambda: sum(loads("bytes_in")) >= bytes_pushed, "the servers have told what they received")
    assert sum(loads("bytes_in")) == bytes_pushed, "each contribution went to one server, once"
    assert sum(loads("bytes_out")) == bytes_pushed
    assert max(loads("chunks_reduced")) - min(loads("chunks_reduced")) <= 1


def test_ranks_may_come_in_any_order(cluster: Cluster):
    cluster.start_scheduler()
    ranks = []
    for rank in [3, 1, 0, 2]:
        ranks.append(cluster.start_rank(rank, WORLD_SIZE, "--min-servers", "1"))
        if rank == 3:
            cluster.start_server("alpha")  # even after the first rank
        ranks[-1].wait_for_line("^joined$")
    assert len(digests(ranks)) == 1


def test_shoal_perf_as_one_process_for_each_rank(cluster: Cluster, tmp_path):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    cluster.start_server("beta")
    report = tmp_path / "report.json"
    sizes = ["-b", "1K", "-e", "1M", "-f", "32", "-n", "3", "-w", "1", "--min-servers", "2", "--json", str(report)]
    ranks = [cluster.start_perf_rank(rank, WORLD_SIZE, *sizes) for rank in [2, 3, 0, 1]]
    for rank in ranks:
        assert rank.wait() == 0, f"{rank}"
    results = json.loads(report.read_text())["results"]
    assert [result["bytes"] for result in results] == [1 << 10, 1 << 15, 1 << 20]
    assert all(result["wrong"] == 0 for result in results)


def test_second_process_with_a_rank_is_told_who_holds_it(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    holder = cluster.start_rank(1, 2)
    holder.wait_for_line("^joined$")
    text = refusal(cluster.start_rank(1, 2))
    assert text.startswith("ALREADY_EXISTS")
    assert str(holder.pid) in text
    assert len(digests([cluster.start_rank(0, 2), holder])) == 1, "the holder was not disturbed"


def test_world_sizes_that_differ(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    first = cluster.start_rank(0, 2)
    first.wait_for_line("^joined$")
    text = refusal(cluster.start_rank(1, 3))
    assert text.startswith("INVALID_ARGUMENT")
    assert re.search(r"world size.*\b3\b.*\b2\b|world size.*\b2\b.*\b3\b", text)


def test_missing_rank_is_named(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    ranks = [cluster.start_rank(rank, 3, "--timeout-ms", SHORT_TIMEOUT_MS) for rank in (0, 2)]
    for rank in ranks:
        text = refusal(rank)
        assert text.startswith("DEADLINE_EXCEEDED")
        assert re.search(r"rank 1 .*never joined", text)


def test_missing_servers_are_counted(cluster: Cluster):
    cluster.start_scheduler()
    cluster.start_server("alpha")
    text = refusal(cluster.start_rank(0, 1, "--min-servers", "2", "--timeout-ms", SHORT_TIMEOUT_MS))
    assert text.startswith("DEADLINE_EXCEEDED")
    assert re.search(r"\b1 of 2\b", text)


def test_unreachable_scheduler_is_waited_for_until_the_deadline_and_then_named(cluster: Cluster):
    cluster.scheduler_address = f"{LOOPBACK}:1"
    started = time.monotonic()
    text = refusal(cluster.start_rank(0, 1, "--timeout-ms", SHORT_TIMEOUT_MS))
    assert time.monotonic() - started >= float(SHORT_TIMEOUT_MS) / 1000, "it may start later than its ranks"
    assert text == (
        f"UNAVAILABLE: no scheduler answered at {LOOPBACK}:1 within 3 s (Connection refused): "
        "is shoal-scheduler running there?"
    )


def test_no_memory_for_slots_is_told_to_the_worker(cluster: Cluster):
    cluster.start_scheduler()
    server = cluster.start_server("tiny", "--slot-memory", "64K")
    for rank in cluster.start_ranks(2, "--chunk-bytes", "65536", "--job", "large"):
        text = refusal(rank)
        assert text.startswith("RESOURCE_EXHAUSTED")
        assert "server tiny has no memory for the slots" in text
        assert "--slot-memory" in text
    cluster.told("F20", "hello-refused", "no memory", server)
    cluster.told("F20", "job-failed", r'^job "large": .*server tiny has no memory for the slots')
    assert len(digests(cluster.start_ranks(2, "--chunk-bytes", "4096", "--job", "small"))) == 1
    assert server.running()


def test_i7_f15_garbage_does_not_disturb_a_running_job(cluster: Cluster):
    cluster.start_scheduler()
    server = cluster.start_server("alpha")
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    data_address = server.wait_for_line(SERVER_LISTENS).group(2)
    held = pour_garbage(data_address) + pour_garbage(cluster.scheduler_address)
    closed = rf"connections so far were closed, the last one from {LOOPBACK}:"
    cluster.told("F15", "strangers-turned-away", closed, server)
    for rank in ranks:
        rank.say()
    wait_for_line_of_all(ranks, "^round 1 done$")
    for rank in ranks:
        rank.say()
    assert len(digests(ranks)) == 1
    assert len(digests(cluster.start_ranks(2, "--job", "another"))) == 1
    for connection in held:
        connection.close()


def test_i6_running_job_does_not_need_the_scheduler(cluster: Cluster):
    scheduler = cluster.start_scheduler()
    cluster.start_server("alpha")
    expected = digests(cluster.start_ranks(2, "--job", "undisturbed", "--rounds", "2"))
    assert len(expected) == 1
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    let_go_on(ranks, 2)
    assert digests(ranks) == expected


def test_i8_killed_rank_fails_the_others_and_leaves_another_job_alone(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    cluster.start_server("alpha")
    bystanders = cluster.start_ranks(2, "--job", "bystanders", "--rounds", "2", "--hold")
    ranks = cluster.start_ranks(3, "--rounds", "2", "--hold")
    wait_for_line_of_all([*ranks, *bystanders], "^round 0 done$")
    ranks[2].send(signal.SIGKILL)
    for rank in ranks[:2]:
        rank.say()
    for rank in ranks[:2]:
        text = refusal(rank)
        assert text.startswith("ABORTED")
        assert "rank 2" in text
    for _ in range(2):
        for rank in bystanders:
            rank.say()
    assert len(digests(bystanders)) == 1
    cluster.wait_until(lambda: cluster.servers()["alpha"].get("load", {}).get("groups_open", 0) == 0, "slots are free")


def test_the_last_server_killed_is_named_at_the_deadline(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    server = cluster.start_server("alpha")
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold", "--timeout-ms", SHORT_TIMEOUT_MS)
    wait_for_line_of_all(ranks, "^round 0 done$")
    server.send(signal.SIGKILL)
    for rank in ranks:
        rank.say()
    texts = [refusal(rank) for rank in ranks]
    assert all(re.search("server alpha .* was lost", text) for text in texts), texts
    # The first one's deadline fails the group, and the other may hear of that before its own.
    assert "DEADLINE_EXCEEDED" in {text.partition(":")[0] for text in texts}, texts


@pytest.mark.parametrize("times", [1, 10])
def test_signalled_server_lets_open_groups_end(cluster: Cluster, times: int):
    """Also if the signal comes several times within a second: GNU timeout signals a process and then its group."""
    cluster.start_scheduler()
    server = cluster.start_server("alpha", "--drain-timeout", "60000")
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold")
    wait_for_line_of_all(ranks, "^round 0 done$")
    for _ in range(times):
        server.send(signal.SIGTERM)
        time.sleep(0.01)  # or the kernel makes one of them
    cluster.wait_for_server("alpha", "left")
    for rank in ranks:
        rank.say()
    wait_for_line_of_all(ranks, "^round 1 done$")
    assert server.running()
    for rank in ranks:
        rank.say()
    assert len(digests(ranks)) == 1
    assert server.wait() == 0
    assert "stopping although groups are open" not in server.output


@pytest.mark.parametrize("how", ["drain timeout", "SIGINT as well", "SIGTERM for long"])
def test_signalled_server_does_not_wait_for_ever(cluster: Cluster, how: str):
    cluster.start_scheduler()
    patience_ms = "2000" if how == "drain timeout" else "600000"
    server = cluster.start_server("alpha", "--drain-timeout", patience_ms)
    ranks = cluster.start_ranks(2, "--rounds", "2", "--hold", "--timeout-ms", SHORT_TIMEOUT_MS)
    wait_for_line_of_all(ranks, "^round 0 done$")
    server.send(signal.SIGTERM)
    if how != "drain timeout":
        server.wait_for_line("leaving the cluster")
        cluster.wait_for_server("alpha", "left")
    if how == "SIGINT as well":
        server.send(signal.SIGINT)
    while how == "SIGTERM for long" and server.running():
        server.send(signal.SIGTERM)
        time.sleep(0.05)
    assert server.wait() == 0
    whom = r"group \d+ of job \d+ \(ranks 0, 1\)$"
    server.wait_for_line(rf"stopping although groups are open; .*: {whom}")
    if how == "drain timeout":
        server.wait_for_line(rf"waited [\d.]+ s for open groups to end \([\d.]+ s left\): {whom}")
    for rank in ranks:
        rank.say()
    # Whose deadline passes first may end the other's op just before its own.
    texts = [refusal(rank) for rank in ranks]
    codes = {text.partition(":")[0] for text in texts}
    assert "DEADLINE_EXCEEDED" in codes and codes <= {"DEADLINE_EXCEEDED", "ABORTED"}, texts
    assert all(re.search(r"is not done after 3(\.\d)? s", text) for text in texts), texts


def test_each_rank_of_a_running_job_has_rates(cluster: Cluster):
    cluster.start_scheduler(lease_ttl_ms=1500)
    cluster.start_server("alpha")
    for rank in range(2):
        cluster.start_perf_rank(rank, 2, "--node-reduce", "off", "-b", "64K", "-n", "1000000", "-c", "0")

    def rates() -> list[dict]:
        if cluster.least_ops("perf") == 0:
            return []
        (job,) = cluster.shoalctl("job", "perf")
        found = [rank.get("rates", {}) for rank in job["ranks"]]
        return found if all(each.get("ops", 0) > 0 for each in found) else []

    first, second = cluster.wait_until(rates, "both ranks have rates")
    for each in (first, second):
        assert each["bytes_pushed"] / each["ops"] == pytest.approx(64 << 10, rel=0.2), "its contribution"
        assert each["bytes_pulled"] / each["ops"] == pytest.approx(64 << 10, rel=0.2), "and the result"
    assert re.search(r"\n\nRANK  OPS/S +PUSHED/S +PULLED/S\n0 .*\n1 .*\n\n", cluster.shoalctl_text("job", "perf"))
