"""What happened before a failure is written down by every member that takes part: ranks and servers."""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess

import pytest

from hosts.cluster import Cluster, program
from hosts.process import Process
from job_runs import let_go_on, wait_for_line_of_all

RANKS = 3


def start_perf(cluster: Cluster, rank: int, *options: str):
    return cluster.start_perf_rank(
        rank, RANKS, "--node-reduce", "off", "-b", "1M", "-n", "1000000", "-c", "0", *options
    )


def lose_a_rank(
    cluster: Cluster, server_options: list[str], rank_options: list[str]
) -> tuple[Process, list[Process]]:
    """The server alpha, and the ranks of a job of which the last one is killed in the middle of an all-reduce."""
    cluster.start_scheduler(lease_ttl_ms=2000)
    server = cluster.start_server("alpha", *server_options)
    ranks = [start_perf(cluster, rank, *rank_options) for rank in range(RANKS)]
    cluster.wait_until(
        lambda: int(cluster.servers()["alpha"].get("load", {}).get("groups_open", 0)) == 1, "the group is open"
    )
    cluster.wait_for_event("group-opened", "perf")
    ranks[-1].send(signal.SIGKILL)
    return server, ranks


def record(cluster: Cluster, folder: pathlib.Path, name: str) -> str:
    """Of the one file whose name begins so."""

    def written() -> list[pathlib.Path]:
        return [path for path in folder.glob(f"{name}-*.txt") if path.read_text(encoding="utf-8").endswith("\n")]

    [path] = cluster.wait_until(written, f"{folder}/{name}-*.txt is written")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("network", [[], ["--network-only"]], ids=["shared memory", "network"])
def test_a_lost_rank_leaves_the_last_events_of_all_others(cluster: Cluster, tmp_path: pathlib.Path, network: list[str]):
    recorded = ["--flight-recorder", str(tmp_path)]
    server, ranks = lose_a_rank(cluster, server_options=recorded, rank_options=[*recorded, *network])
    for number in range(2):
        text = record(cluster, tmp_path, f"shoal-perf-rank-{number}")
        first = text.splitlines()[0]
        assert first.startswith(f'rank {number} of job "perf" on '), first
        assert re.search(r'group "shoal-perf" \(group=\d+\) failed: ABORTED: .*rank 2.* was lost', first), first
        assert re.search(r"^-\d+\.\d{6} send peer=\d+ token=\d+ push group=\d+ epoch=1 rank=", text, re.MULTILINE)
        assert re.search(r"^-\d+\.\d{6} offered peer=\d+ offer=\d+ result group=", text, re.MULTILINE)
        # Who hears of the loss first tells the others through the server.
        told = r"^-\d+\.\d{6} (send )?note peer=\d+ (rank-lost|group-failed) group="
        assert re.search(told, text, re.MULTILINE), text[-3000:]
        ranks[number].wait_for_line(r"what happened before is in .*shoal-perf-rank-")
        assert ranks[number].wait() == 1
    text = record(cluster, tmp_path, "shoal-server-alpha-group")
    assert re.search(r"^I/O thread 0 of server alpha, a group \(group=\d+\) failed: .*rank 2", text), text[:500]
    assert re.search(r"^-\d+\.\d{6} offered peer=\d+ offer=\d+ push group=", text, re.MULTILINE)
    assert re.search(r"^-\d+\.\d{6} peer down peer=\d+", text, re.MULTILINE)
    server.wait_for_line(
        r"INFO server flight-recorded: a group \(group=\d+\) failed: .*rank 2.*; what happened before is in "
        r".*shoal-server-alpha-group-"
    )
    check_timeline(tmp_path)


def read_timeline(drawn: pathlib.Path) -> tuple[list[dict], dict[int, str]]:
    """Its events, and the names of its processes, which are the server and the ranks that live."""
    events = json.loads(drawn.read_text(encoding="utf-8"))["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(re.sub(" on .*", "", name) for name in processes.values()) == [
        "I/O thread 0 of server alpha",
        'rank 0 of job "perf"',
        'rank 1 of job "perf"',
    ]
    return events, processes


def check_timeline(folder: pathlib.Path) -> None:
    """The records of all members are drawn on one clock: theirs is one, and each says when it failed, to a
    millisecond."""
    trace = folder / "trace.json"
    command = [program("shoalctl"), "timeline", str(folder), "-o", str(trace)]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 members of group" in drawn.stdout
    errors_us = [float(error) for error in re.findall(r"wrong by (\d+\.\d) us at most", drawn.stdout)]
    assert len(errors_us) == 2 and all(0 < error < 100_000 for error in errors_us), drawn.stdout
    events, processes = read_timeline(trace)
    failed_us = {processes[event["pid"]]: event["ts"] for event in events if event["ph"] == "i" and event["s"] == "p"}
    said_us = {}
    for path in folder.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        said_us[re.split(", (?:a )?group ", text)[0]] = 1000 * int(re.search(r"unix_ms=(\d+)", text).group(1))
    assert failed_us.keys() == said_us.keys()
    differences_us = [failed_us[name] - said_us[name] for name in failed_us]
    assert max(differences_us) - min(differences_us) < sum(errors_us) + 2 * 1000, (failed_us, said_us)
    chunks = {}  # by process
    for event in events:
        if event["ph"] == "X" and re.fullmatch(r"op \d+ chunk \d+", event["name"]):
            chunks.setdefault(processes[event["pid"]], set()).add(event["name"])
    # The same chunks, but for those at the ends of records, which reach back for different times.
    assert len(set.intersection(*(chunks[name] for name in processes.values()))) > 10, chunks
    assert sum(event["ph"] == "f" for event in events) > 40, "arrows"
    assert any(event["ph"] == "i" and re.search("failed: .*rank 2", event["name"]) for event in events)


def test_colocated_servers_leave_theirs_in_the_folder_of_their_ranks(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler(lease_ttl_ms=2000)
    options = ["--colocate", "on", "--hold", "--count", "300007", "--flight-recorder", str(tmp_path)]
    ranks = [cluster.start_rank(r, RANKS, "--node-name", f"node-{r}", *options) for r in range(RANKS)]
    wait_for_line_of_all(ranks, "^round 0 done$")
    ranks[2].send(signal.SIGKILL)
    for number in range(2):
        text = record(cluster, tmp_path, f"shoal-server-node-{number}-job*-rank{number}-group")
        head = rf"^I/O thread 0 of server node-{number}-job\d+-rank{number}, a group .*rank 2"
        assert re.search(head, text), text[:500]
        said = r"colocated server: a group .* failed: .*; what happened before is in .*shoal-server-node-"
        ranks[number].wait_for_line(said)


def test_a_group_on_one_node_alone_leaves_records_of_what_its_ranks_reduced(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler(lease_ttl_ms=2000)
    options = ["--node-reduce", "host", "-b", "1M", "-n", "1000000", "-c", "0", "--flight-recorder", str(tmp_path)]
    ranks = [cluster.start_perf_rank(rank, RANKS, *options) for rank in range(RANKS)]
    cluster.wait_until(lambda: cluster.least_ops("perf") > 10, "the ranks reduce")
    # The others are in the middle of an op when the scheduler calls it lost.
    ranks[-1].send(signal.SIGSTOP)
    for number in range(2):
        text = record(cluster, tmp_path, f"shoal-perf-rank-{number}")
        op = r"^-\d+\.\d{9} within node group=\d+ op=\d+ length_ns=\d+ "
        stages = r"contribute_ns=\d+ reduce_ns=\d+ publish_ns=0 payload=1048576$"
        assert len(re.findall(op + stages, text, re.MULTILINE)) >= 10, text[-3000:]
        [length_ns] = re.findall(r"within node .* length_ns=(\d+) .*FAILED$", text, re.MULTILINE)
        assert int(length_ns) > 1e9, "it waited for most of a lease"
    drawn = tmp_path / "trace.json"
    subprocess.run([program("shoalctl"), "timeline", str(tmp_path), "-o", str(drawn)], check=True)
    events = json.loads(drawn.read_text(encoding="utf-8"))["traceEvents"]
    assert sum(bool(re.fullmatch(r"op \d+ within the node \(not done\)", event["name"])) for event in events) == 2


def test_nobody_has_to_name_a_folder(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.environment["TMPDIR"] = str(tmp_path)
    server, ranks = lose_a_rank(cluster, server_options=[], rank_options=[])
    folder = tmp_path / f"shoal-flights-{os.geteuid()}"
    for number in range(2):
        failure = r'group "shoal-perf" \(group=\d+\) failed: ABORTED: .*rank 2.* was lost.*'
        ranks[number].wait_for_line(
            rf'^shoal: rank {number} of job "perf": {failure}; what happened before is in '
            rf"{re.escape(str(folder))}/shoal-perf-rank-{number}-\S+\.txt$"
        )
        record(cluster, folder, f"shoal-perf-rank-{number}")
    server.wait_for_line(rf"flight-recorded: a group .*; what happened before is in {re.escape(str(folder))}/")
    record(cluster, folder, "shoal-server-alpha-group")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "for this user alone"


def test_a_program_that_does_not_know_of_it_has_them_as_well(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.environment["TMPDIR"] = str(tmp_path)
    cluster.start_scheduler(lease_ttl_ms=2000)
    cluster.start_server("alpha", "--flight-recorder", "off")
    ranks = cluster.start_ranks(RANKS, "--hold", "--rounds", "2", "--count", "300007")  # flight_recorder: NULL
    wait_for_line_of_all(ranks, "^round 0 done$")
    let_go_on(ranks[:2])
    ranks[2].send(signal.SIGKILL)
    for number in range(2):
        text = record(cluster, tmp_path / f"shoal-flights-{os.geteuid()}", f"shoal-test-rank-{number}")
        assert re.search(r"^-\d+\.\d{6} send peer=\d+ token=\d+ push group=", text, re.MULTILINE)


def test_where_there_is_no_folder_the_line_about_the_failure_says_so(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.environment["TMPDIR"] = str(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / f"shoal-flights-{os.geteuid()}"
    folder.symlink_to(elsewhere)
    server, ranks = lose_a_rank(cluster, server_options=["--flight-recorder", "off"], rank_options=[])
    said = rf"failed: ABORTED: .*rank 2.*; what happened before is not written, because {re.escape(str(folder))} can't"
    for rank in ranks[:2]:
        rank.wait_for_line(rf"{said} be had: it is a symbolic link")
        assert rank.wait() == 1
    server.wait_for_line("shard-group-failed")
    server.send(signal.SIGTERM)
    server.wait()  # it has written what it writes
    assert "flight-recorded" not in server.output
    assert list(elsewhere.iterdir()) == []


def test_where_nobody_can_write_the_scheduler_has_the_records(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.environment["TMPDIR"] = str(tmp_path / "missing")
    server, ranks = lose_a_rank(cluster, server_options=[], rank_options=[])
    told = r"what happened before is not written, because .* can't be had: No such file .*; the scheduler has it: "
    for rank in ranks[:2]:
        rank.wait_for_line(rf"failed: ABORTED: .*rank 2.*; {told}`shoalctl timeline --group \d+` draws it$")
        assert rank.wait() == 1
    server.wait_for_line(rf"flight-recorded: a group .*rank 2.*; {told}")
    drawn = tmp_path / "trace.json"
    # Nobody is left who could send anything: it is the scheduler that has kept it.
    server.send(signal.SIGTERM)
    server.wait()
    said = cluster.call_shoalctl("timeline", "--job", "perf", "-o", str(drawn))
    assert said.returncode == 0, said.stderr
    assert re.search(r"^3 members of group \d+, [1-9]\d* pushes and results with both ends:$", said.stdout, re.M)
    events, processes = read_timeline(drawn)
    drawn_of = {event["pid"] for event in events if event["ph"] == "X"}
    assert drawn_of == set(processes), "chunks of each"


def test_what_is_not_recorded_is_not_sent(cluster: Cluster):
    off = ["--flight-recorder", "off"]
    server, ranks = lose_a_rank(cluster, server_options=off, rank_options=off)
    for rank in ranks[:2]:
        assert rank.wait() == 1
    server.send(signal.SIGTERM)
    server.wait()
    none = cluster.call_shoalctl("timeline")
    assert none.returncode == 1
    assert "the scheduler has no flight records of any job" in none.stderr


def test_a_folder_that_is_not_there_is_refused_before_anything_begins(cluster: Cluster, tmp_path: pathlib.Path):
    cluster.start_scheduler()
    missing = str(tmp_path / "missing")
    rank = start_perf(cluster, 0, "--flight-recorder", missing)
    server = cluster.launch_server("--flight-recorder", missing)
    for process in (rank, server):
        assert process.wait() != 0
        assert f"flight records can't be written to {missing}: No such file or directory" in process.output
