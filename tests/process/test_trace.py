"""`shoalctl trace` draws what a running job's ranks and servers do, and the job does not notice."""

import json
import pathlib
import re
import signal
import subprocess
import time

import pytest

from hosts.cluster import Cluster, free_ports, program
from hosts.node import LOOPBACK
from hosts.process import PATIENCE_S, TIME_FACTOR
from held_job import ROUNDS, WORLD_SIZE, start_held_job, undisturbed_digest
from job_runs import digests, let_go_on, reduce_until

LEASE_TTL_MS = 1500
IO_THREADS = 2
# Of one node's records, by its time of day: a thread may be kept from running between its readings of the two clocks.
MOST_APART_US = 5000 * TIME_FACTOR
# All-reduces in many chunks through servers, until the test ends.
PERF_OPTIONS = ["--node-reduce", "off", "-b", "1M", "-n", "1000000", "-c", "0", "--chunk-bytes", "64K"]


def ask(cluster: Cluster, command: str, job: str, *options: str) -> subprocess.Popen[str]:
    words = [program("shoalctl"), "--scheduler", cluster.scheduler_address, command, job, *options]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(asked: subprocess.Popen[str]) -> tuple[str, str]:
    """What it wrote to standard output and error."""
    return asked.communicate(timeout=PATIENCE_S)


def traces_begun(cluster: Cluster) -> int:
    return sum(event["kind"] == "job-traced" for event in cluster.events())


def test_a_running_job_is_drawn_on_one_clock_again_and_again(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha", "--io-threads", str(IO_THREADS))
    ranks = [cluster.start_perf_rank(rank, WORLD_SIZE, *PERF_OPTIONS) for rank in range(WORLD_SIZE)]
    cluster.wait_for_event("group-opened", "perf")
    for number in range(2):
        file = tmp_path / f"trace-{number}.json"
        before_us = time.time_ns() // 1000
        out, err = answer_of(ask(cluster, "trace", "perf", "--seconds", "0.5", "-o", str(file)))
        assert err == ""
        assert f"{WORLD_SIZE + IO_THREADS} members, " in out and str(file) in out, out
        assert "No record came" not in out, out
        check_picture(json.loads(file.read_text(encoding="utf-8")), before_us)
    done = cluster.least_ops("perf")
    cluster.wait_until(lambda: cluster.least_ops("perf") > done, "the job goes on")
    assert all(rank.running() for rank in ranks)


def check_picture(picture: dict, before_us: int) -> None:
    events = picture["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(re.sub(" on .*", "", name) for name in processes.values()) == [
        *(f"I/O thread {thread} of server alpha" for thread in range(IO_THREADS)),
        *(f'rank {rank} of job "perf"' for rank in range(WORLD_SIZE)),
    ]
    chunks = dict.fromkeys(processes.values(), 0)
    for event in events:
        if event["ph"] == "X" and re.fullmatch(r"op \d+ chunk \d+", event["name"]):
            chunks[processes[event["pid"]]] += 1
    assert min(chunks.values()) > 10, chunks
    assert sum(event["ph"] == "f" for event in events) > 40, "arrows"
    assert sum(event["ph"] == "i" and event["name"] == "the trace has ended" for event in events) == len(processes)
    # Its time is the node's.
    begins_us = picture["otherData"]["begins_at_unix_us"]
    last_us = begins_us + max(event["ts"] for event in events if event["ph"] == "X")
    assert before_us < last_us < time.time_ns() // 1000 + 1000


def test_ranks_of_one_node_are_drawn_without_any_server(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    options = ["--node-reduce", "host", "-b", "1M", "-n", "1000000", "-c", "0"]
    for rank in range(WORLD_SIZE):
        cluster.start_perf_rank(rank, WORLD_SIZE, *options)
    cluster.wait_until(lambda: cluster.least_ops("perf") > 0, "the ranks reduce")
    file = tmp_path / "trace.json"
    out, err = answer_of(ask(cluster, "trace", "perf", "--seconds", "0.5", "-o", str(file)))
    assert err == ""
    assert f"{WORLD_SIZE} members, 0 pushes and results" in out and "No record came" not in out, out
    ops = {}  # of each rank: their slices by name
    parts = {}
    tracks = {}
    for event in json.loads(file.read_text(encoding="utf-8"))["traceEvents"]:
        if event["name"] == "thread_name":
            tracks[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X" and re.fullmatch(r"op \d+ within the node", event["name"]):
            ops.setdefault(event["pid"], {})[event["name"]] = event
            assert tracks[event["pid"], event["tid"]].startswith("within the node")
        elif event["ph"] == "X":
            parts.setdefault(event["pid"], set()).add(event["name"])
    assert len(ops) == WORLD_SIZE and min(map(len, ops.values())) > 10, {pid: len(named) for pid, named in ops.items()}
    # A part that took no time is not drawn; and no result comes from elsewhere.
    assert all({"contribute", "reduce", "collect"} == named for named in parts.values()), parts
    # All ranks take part in an op at the same time: none ends before another one has begun it.
    common = set.intersection(*(set(named) for named in ops.values()))
    assert len(common) > 10, "the same ops, but for those at the ends of records"
    for name in common:
        slices = [named[name] for named in ops.values()]
        assert all(each["args"]["bytes"] == 1 << 20 for each in slices)
        last_begin_us = max(each["ts"] for each in slices)
        first_end_us = min(each["ts"] + each["dur"] for each in slices)
        assert last_begin_us < first_end_us + MOST_APART_US, f"{name}: {slices}"


def test_the_bits_of_a_traced_job_are_those_of_one_that_is_not(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    expected = undisturbed_digest(cluster)
    ranks = start_held_job(cluster, "traced")
    # So long that the ranks have left when it ends, also on a slow machine.
    trace = ask(cluster, "trace", "traced", "--seconds", str(8 * TIME_FACTOR), "-o", str(tmp_path / "trace.json"))
    cluster.wait_for_event("job-traced", "traced")
    # The server hears of it when it next renews its lease, which would be lost after this time.
    time.sleep(LEASE_TTL_MS / 1000)
    second = ask(cluster, "trace", "traced")
    assert 'a trace of job "traced" is under way, for at most' in answer_of(second)[1]
    assert second.returncode == 1
    let_go_on(ranks, ROUNDS)
    assert digests(ranks) == expected
    out, _ = answer_of(trace)
    assert "1 member, " in out, "the server alone is left"
    for rank in range(WORLD_SIZE):
        assert re.search(rf"No record came from rank {rank} on .*, which has left the job or was lost\.", out), out
    assert '"ph":"X"' in (tmp_path / "trace.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("node_reduce", ["off", "host"])
def test_the_results_of_all_ranks_are_compared(cluster: Cluster, node_reduce: str):
    cluster.start_scheduler(lease_ttl_ms=LEASE_TTL_MS)
    cluster.start_server("alpha")
    ranks = start_held_job(cluster, "compared", "--node-reduce", node_reduce, "--rounds", "1000000")
    comparison = ask(cluster, "verify", "compared", "--seconds", "0.5")
    reduce_until(ranks, lambda: comparison.poll() is not None)
    out, err = answer_of(comparison)
    assert comparison.returncode == 0, err
    assert re.match(r"[1-9]\d* all-reduces of 1 group compared over 4 ranks: each has the same bits", out), out


def test_what_can_not_be_traced_is_told(cluster: Cluster, tmp_path: pathlib.Path):
    listen = f"{LOOPBACK}:{free_ports(1)[0]}"
    scheduler = cluster.start_scheduler(listen=listen, lease_ttl_ms=LEASE_TTL_MS)
    trace = ask(cluster, "trace", "nobody")
    assert answer_of(trace) == ("", 'shoalctl: no job is named "nobody"; open jobs: none\n')
    assert trace.returncode == 1
    cluster.start_server("alpha")
    start_held_job(cluster, "traced")
    cluster.wait_for_event("group-opened", "traced")
    full = ask(cluster, "trace", "traced", "--seconds", "0.1", "-o", "/dev/full")
    assert "can't write /dev/full: No space left on device" in answer_of(full)[1]
    # The scheduler is started again in the middle: it knows nothing of the trace.
    lost = ask(cluster, "trace", "traced", "--seconds", "3", "-o", str(tmp_path / "trace.json"))
    cluster.wait_until(lambda: traces_begun(cluster) == 2, "the second trace has begun")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    cluster.start_scheduler(listen=listen, lease_ttl_ms=LEASE_TTL_MS)
    assert "the scheduler was started again" in answer_of(lost)[1]
    assert lost.returncode == 1
