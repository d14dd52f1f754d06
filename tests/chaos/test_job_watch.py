"""What a job's watcher makes of what its ranks say and how they end: real processes, in place of ranks of a cluster."""

import json
import pathlib
import sys
import time
import types
from collections.abc import Iterator

import pytest
from chaos.chaos_cluster import Running
from chaos.findings import Findings
from chaos.job_watch import JobWatch
from chaos.progress import Progress
from chaos.shape import Job, Shape
from chaos.starvation import Starvation
from chaos.world import World
from hosts.process import Process

JOB = Job("j", ("worker-0", "worker-1"), group_slots=1)
FAILED = {"what": "failed", "where": "op", "slot": 0, "group": "0.0", "text": "ABORTED: no", "waited_s": 1.0}


class Watched:
    """Two ranks, each a program of a line."""

    def __init__(self, folder: pathlib.Path, *programs: str):
        self.findings = Findings()
        self.running = {
            JOB.rank_name(rank): Running(JOB.rank_name(rank), Process([sys.executable, "-c", program]), 0.0)
            for rank, program in enumerate(programs)
        }
        cluster = types.SimpleNamespace(
            seed=1,
            incarnations={JOB.name: 1},
            stopped=set(),
            running=self.running,
            progress_of=lambda job, rank: Progress(folder / str(rank)),
        )
        world = World(Shape(jobs=(JOB,), worker_nodes=2))
        self.watch = JobWatch(cluster, world, JOB, self.findings, Starvation())

    def process(self, rank: int) -> Process:
        return self.running[JOB.rank_name(rank)].process

    def look(self) -> None:
        self.watch.look(time.monotonic(), 0.0, 60.0)

    def crashes(self) -> list[str]:
        return [violation.text for violation in self.findings.violations if violation.kind == "crash"]

    def end(self) -> None:
        for running in self.running.values():
            running.process.end_group()


@pytest.fixture
def ranks(tmp_path: pathlib.Path) -> Iterator:
    started: list[Watched] = []

    def start(*programs: str) -> Watched:
        started.append(Watched(tmp_path, *programs))
        return started[-1]

    yield start
    for watched in started:
        watched.end()


def test_a_rank_that_ends_in_good_order_after_another_failed_has_not_crashed(ranks):
    says_it_failed = f"import time; print({json.dumps(FAILED)!r}, flush=True); time.sleep(100)"
    watched = ranks("", says_it_failed)
    assert watched.process(0).wait() == 0
    watched.process(1).wait_for_line("failed")
    for _ in range(2):
        watched.look()
    assert watched.crashes() == [] and watched.watch.told == {1}


def test_what_another_rank_said_may_be_read_a_moment_later(ranks):
    says_it_later = f"import time; input(); print({json.dumps(FAILED)!r}, flush=True); time.sleep(100)"
    watched = ranks("", says_it_later)
    assert watched.process(0).wait() == 0
    watched.look()
    assert not watched.watch.is_over() and 0 in watched.watch.gone_since
    watched.process(1).say()
    watched.process(1).wait_for_line("failed")
    watched.look()
    assert watched.crashes() == []


@pytest.mark.parametrize("code", [0, 3])
def test_a_rank_that_ends_without_a_word_has_crashed(ranks, code: int):
    watched = ranks("", f"raise SystemExit({code})")
    assert [watched.process(rank).wait() for rank in JOB.ranks] == [0, code]
    watched.look()
    assert not watched.watch.must_restart(time.monotonic()), "its end is to be judged first"
    watched.look()
    [crash, *more] = watched.crashes()
    assert crash.startswith("j/0 ended with 0")
    assert [line.split(":")[0] for line in more] == ([f"j/1 ended with {code}"] if code else [])
    assert watched.watch.is_over() and watched.watch.must_restart(time.monotonic())
