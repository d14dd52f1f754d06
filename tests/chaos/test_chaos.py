"""Chaos, in short: a fixed seed on the real programs (I1, I8, I10, F1 to F18). `make chaos` runs it for longer.

SHOAL_CHAOS_SECONDS: how long, instead of three minutes.
"""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from chaos import schedule
from chaos.fault import Fault
from chaos.schedule import SCHEDULES
from chaos.shape import SHAPES

from hosts.cluster import ROOT, need_root
from hosts.left_over import processes_of

RUN = [sys.executable, str(ROOT / "tests" / "chaos" / "run.py")]
SECONDS = float(os.environ.get("SHOAL_CHAOS_SECONDS", 180))
SEED = 7
START_AND_END_S = 240
# Schedules that say which fault it was.
SURVIVED = [
    "server_back_after_outage",
    "server_back_after_pulled_cable",
    "rank_started_while_its_cable_is_pulled",
    "only_server_back_after_outage",
    "path_cut_then_other_server_dies",
    "one_way_server_to_rank",
    "one_way_rank_to_server",
    "job_started_again",
    "job_ended_before_all_ranks_had_come",
    "report_that_cannot_be_acted_on",
    "group_made_while_a_path_is_cut",
    "many_closed_groups_then_server_dies",
    "servers_that_are_too_small",
    "follower_cut_off_from_leader",
    "clock_set_back_then_scheduler_silent",
    "follower_under_many_calls",
    "large_chunks_over_shared_memory",
    "late_rank_over_shared_memory",
]


@pytest.fixture(autouse=True)
def needs_root() -> None:
    need_root("chaos")


def run(*options: str, timeout_s: float) -> subprocess.CompletedProcess:
    return subprocess.run([*RUN, *options], capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + START_AND_END_S)
def test_chaos_of_a_fixed_seed_breaks_nothing_that_failover_promises():
    options = ["--seed", str(SEED), "--minutes", str(SECONDS / 60), "--shape", "small"]
    done = run(*options, timeout_s=SECONDS + START_AND_END_S)
    print(done.stdout, done.stderr[-20000:])
    assert done.returncode == 0, done.stdout[-5000:]
    match = re.search(r"^(\d+) faults .*?(\d+) right results", done.stdout, re.MULTILINE)
    assert int(match.group(1)) >= SECONDS / 20 and int(match.group(2)) > 10 * SECONDS


@pytest.mark.long
def test_i10_what_once_ended_a_job_is_survived():
    """The schedules run side by side: most of their time is waiting."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
        runs = {name: pool.submit(run, "--only", str(SCHEDULES / f"{name}.json"), timeout_s=500) for name in SURVIVED}
    for name, each in runs.items():
        done = each.result()
        assert done.returncode == 0, f"{name}:\n{done.stdout[-5000:]}\n{done.stderr[-10000:]}"


@pytest.mark.long
def test_f18_a_payload_that_was_changed_can_be_told_from_the_logs(tmp_path: pathlib.Path):
    faults = tuple(Fault("payload-corrupt", 3.0, 8.0, server, amount=0.2) for server in SHAPES["small"].server_names)
    written = tmp_path / "changed.json"
    schedule.save(schedule.Schedule(SHAPES["small"], faults, calm_s=8.0), written)
    done = run("--only", str(written), "--logs", str(tmp_path / "logs"), timeout_s=START_AND_END_S)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-10000:]}"
    logs = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "logs").iterdir()}
    told("F18", "payload-corrupted", "wrong checksum", [text for name, text in logs.items() if "server-" in name])
    changed = "a payload of [0-9]+ bytes was changed"
    told("F18", "group-moved", changed, [text for name, text in logs.items() if name.startswith("scheduler-")])


def told(clause: str, kind: str, text: str, logs: list[str]) -> None:
    """As Cluster.told of tests/process."""
    assert re.search(rf" {kind} .*{text}|{kind}.*: .*{text}", "\n".join(logs)), f"{clause} is not told:\n{logs}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_run_that_is_ended_leaves_nothing_behind(number: signal.Signals):
    process = subprocess.Popen(
        [*RUN, "--seed", "1", "--minutes", "2", "--shape", "small", "--kinds", "link-delay"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if "are at work" in line:
            break
    owned = processes_of(process.pid)
    assert len(owned) > 10
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "everything is cleaned up" in errors
    assert processes_of(process.pid) == []


def test_a_run_that_is_killed_takes_its_programs_along():
    process = subprocess.Popen(
        [*RUN, "--seed", "1", "--minutes", "2", "--shape", "small", "--no-faults"], stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if "are at work" in line:
            break
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while left := processes_of(process.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--kinds", "sabotage"], "there are no faults sabotage"),
        (["--often", "sabotage"], "there are no faults sabotage"),
        (["--only", str(SCHEDULES / "none.json")], "No such file"),
        (["--without", "eyes", "--no-faults"], "there are no checkers eyes"),
    ],
    ids=["kind", "often", "file", "checker"],
)
def test_what_can_not_be_run_is_refused(options: list[str], complaint: str):
    done = run(*options, timeout_s=60)
    assert done.returncode == 2 and complaint in done.stderr
