"""What `shoalctl trace` draws lies beside the spans of torch.profiler: a chunk is under way while its all-reduce is."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from rank_processes import run_ranks
from shoal import merge_traces

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOALCTL = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")) / "shoalctl"
STEP = "the test's all-reduce"
SLACK_US = 300  # what the clocks of the two recorders may differ by


def reduce_while_traced(scheduler: str, folder: str) -> int:
    """Rank 0 profiles itself while the trace lasts. How many all-reduces were made."""
    rank = dist.get_rank()
    tensor = torch.ones(100_003)
    traced = torch.zeros(1)
    steps = 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        command = [str(SHOALCTL), "--scheduler", scheduler, "trace", os.environ["SHOAL_JOB_NAME"]]
        options = ["--seconds", "0.5", "-o", f"{folder}/trace.json"]
        trace = subprocess.Popen([*command, *options]) if rank == 0 else None
        while True:
            with torch.profiler.record_function(STEP):
                dist.all_reduce(tensor)
            steps += 1
            time.sleep(0.005)
            if trace is not None and trace.poll() is not None:
                assert trace.returncode == 0
                traced.fill_(1)
            dist.broadcast(traced, 0)
            if traced.item() == 1:
                break
    if rank == 0:
        profile.export_chrome_trace(f"{folder}/profile.json")
    return steps


def test_chunks_lie_within_the_profilers_spans_of_their_all_reduces(cluster, tmp_path: pathlib.Path):
    steps = run_ranks(2, reduce_while_traced, cluster.scheduler, str(tmp_path), environment=cluster.environment())
    assert steps[0] > 50
    files = [tmp_path / "trace.json", tmp_path / "profile.json"]
    merged = tmp_path / "merged.json"
    subprocess.run([sys.executable, "-m", "shoal.merge_traces", *files, "-o", merged], check=True)
    events = json.loads(merged.read_text(encoding="utf-8"))["traceEvents"]
    [drawn] = [
        event["pid"]
        for event in events
        if event.get("name") == "process_name" and event["args"]["name"].startswith("rank 0 of job")
    ]
    chunks = [
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["pid"] == drawn and event["ph"] == "X" and " chunk " in event["name"]
    ]
    steps_seen = [event for event in events if event.get("name") == STEP and "dur" in event]
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in steps_seen]
    assert len(chunks) > 50 and len(spans) == steps[0]

    def is_within_a_span(begin_us: float, end_us: float) -> bool:
        return any(first - SLACK_US <= begin_us and end_us <= last + SLACK_US for first, last in spans)

    outside = [chunk for chunk in chunks if not is_within_a_span(*chunk)]
    assert len(outside) < len(chunks) // 20, (outside[:3], spans[:3])


def test_files_are_put_on_the_clock_of_the_first_and_keep_their_processes_apart():
    arrow = {"ph": "s", "pid": 7, "ts": 1.5, "id": 3}
    profile = {"baseTimeNanoseconds": 5_000_000, "traceEvents": [{"ph": "X", "pid": 7, "ts": 1.5, "dur": 1}, arrow]}
    drawn = {
        "otherData": {"begins_at_unix_us": 6000},
        "traceEvents": [{"ph": "X", "pid": 1, "ts": 2.0}, {"ph": "M", "pid": "Spans", "ts": 0}],
    }
    events = merge_traces.merge([drawn, profile])["traceEvents"]
    assert events[0] == {"ph": "X", "pid": 1, "ts": 2.0}
    assert events[2] == {"ph": "X", "pid": 10_000_007, "ts": -998.5, "dur": 1}
    assert events[3]["id"] == 10**12 + 3
    assert merge_traces.merge([profile, drawn])["traceEvents"][3]["pid"] == "Spans (1)"


def test_a_file_that_can_not_be_merged_is_named(tmp_path: pathlib.Path):
    other = tmp_path / "other.json"
    reasons = {
        "{}": "does not say when it begins",
        "[1]": "has no attribute",
        "{": "Expecting",
        '{"baseTimeNanoseconds": 1}': "no list of events",
    }
    for text, reason in reasons.items():
        other.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "shoal.merge_traces", other, "-o", tmp_path / "merged.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.startswith(f"{other}: ") and reason in done.stderr
    with pytest.raises(ValueError, match="does not say when it begins"):
        merge_traces.begins_at_us({"traceEvents": []})
