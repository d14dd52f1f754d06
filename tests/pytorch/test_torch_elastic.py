"""Ranks under torchrun: one dies, and the example goes on from its checkpoint, to the weights of an undisturbed run.
Or torchrun itself is killed, and leaves its ranks."""

import os
import pathlib
import re
import signal
import subprocess

from hosts.process import Process, Processes
from torch_cluster import TORCHRUN, clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOALCTL = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin")) / "shoalctl"
WORLD_SIZE = 2
STEPS = 12
CHECKPOINT_EVERY = 3


def start_training(processes: Processes, text: pathlib.Path, environment: dict[str, str], *options: str) -> Process:
    command = [
        *TORCHRUN, "--nproc-per-node", str(WORLD_SIZE), "--max-restarts", "2", str(ROOT / "examples/train_gpt.py"),
        "--text", str(text), "--steps", str(STEPS), "--report-every", "1", "--width", "32", "--layers", "1",
        "--heads", "2",
        *options,
    ]  # fmt: skip
    return processes.start(command, clean_environment(**environment))


def pid_of_rank(rank: int, marker: str) -> int:
    """Of the process whose environment has both."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue  # ended meanwhile, or not ours
        if f"RANK={rank}".encode() in variables and f"TEST_MARKER={marker}".encode() in variables:
            return int(entry.name)
    raise AssertionError(f"no process of rank {rank}")


def digests(output: str) -> set[str]:
    found = re.findall(r"^rank \d+ weights sha256 (\w+)$", output, re.MULTILINE)
    assert len(found) == WORLD_SIZE, output
    return set(found)


def test_f11_a_killed_rank_costs_the_steps_since_the_last_checkpoint_and_no_bit(cluster, tmp_path):
    text = tmp_path / "text"
    text.write_bytes((ROOT / "worker/include/shoal/worker.h").read_bytes() * 10)
    environment = {"SHOAL_SCHEDULER": cluster.scheduler, "SHOAL_NET_DEVICE": "lo", "SHOAL_MIN_SERVERS": "2"}
    environment["SHOAL_NODE_REDUCE"] = "off"  # this is about the servers

    marker, checkpoint = f"elastic-{os.getpid()}", tmp_path / "checkpoint"
    options = ("--checkpoint", str(checkpoint), "--checkpoint-every", str(CHECKPOINT_EVERY))
    with Processes() as processes:
        undisturbed = start_training(processes, text, environment)
        assert undisturbed.wait(240) == 0, undisturbed
        expected = digests(undisturbed.output)
        disturbed = start_training(processes, text, environment | {"TEST_MARKER": marker}, *options)
        disturbed.wait_for_line(f"^step {CHECKPOINT_EVERY + 2:4}/", 240)
        os.kill(pid_of_rank(1, marker), signal.SIGKILL)
        assert disturbed.wait(240) == 0, disturbed
    output = disturbed.output
    resumed = re.search(r"^going on with step (\d+) from", output, re.MULTILINE)
    assert resumed is not None, output
    assert (int(resumed[1]) - 1) % CHECKPOINT_EVERY == 0 and int(resumed[1]) > CHECKPOINT_EVERY
    assert digests(output) == expected
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("checkpoint")] == ["checkpoint"]


REDUCE_ON_AND_ON = """
import time, torch, torch.distributed as dist, shoal
dist.init_process_group("shoal")
print("joined", flush=True)
while True:
    dist.all_reduce(torch.ones(8))
    time.sleep(0.01)
"""


def ranks_left(marker: str) -> dict[int, int]:
    """Processes by their rank."""
    found = {}
    for rank in range(WORLD_SIZE):
        try:
            found[rank] = pid_of_rank(rank, marker)
        except AssertionError:
            pass
    return found


def test_the_ranks_of_a_killed_torchrun_are_named_to_the_next_run(cluster, tmp_path):
    script, job = tmp_path / "script.py", f"orphans-{os.getpid()}"
    script.write_text(REDUCE_ON_AND_ON)
    environment = clean_environment(**cluster.environment(SHOAL_JOB_NAME=job, TEST_MARKER=job))

    with Processes() as processes:

        def start(ranks: int) -> Process:
            return processes.start([*TORCHRUN, "--nproc-per-node", str(ranks), str(script)], environment)

        killed = start(WORLD_SIZE)
        processes.wait_until(lambda: killed.output.count("joined") == WORLD_SIZE, "all ranks have come", 240)
        killed.send(signal.SIGKILL)
        killed.process.wait()
        left = ranks_left(job)
        shown = subprocess.check_output([SHOALCTL, "--scheduler", cluster.scheduler, "job", job], text=True)
        rows = re.findall(r"^ *(\d) +\S+ +(\d+) +live ", shown, re.MULTILINE)
        assert {int(rank): int(pid) for rank, pid in rows} == left, shown

        second = start(WORLD_SIZE)
        second.wait(240)
        holder = rf'rank (\d) of job "{job}" is held by process (\d+) on node \S+, which was heard'
        held = re.findall(holder, second.output)
        assert held and all(int(pid) == left[int(rank)] for rank, pid in held), second
        assert "end that process (a launcher that was killed leaves its ranks running)" in second.output
        third = start(WORLD_SIZE + 1)
        third.wait(240)
        assert f"has world size {WORLD_SIZE} (from rank 0, process {left[0]} on node " in third.output
