"""The checkers that look at numbers and lines: memory, moves, progress, what is left behind, the page."""

import mmap
import os
import pathlib
import subprocess
import sys
import time

import pytest
from chaos import report, starvation
from chaos.experiment import Outcome, with_large_tensors
from chaos.fault import Fault
from chaos.findings import ALLOWED, FENCED, NOT_JUDGED, OPEN_RANKS_DIED, SMALLER_OPS, Findings
from chaos.left_behind import Before, processes_in
from chaos.memory import ETCD_LOG_BYTES, LARGE_TENSOR_BYTES, MIB, MemoryWatch, growth, memory_of
from chaos.moves import MoveWatch
from chaos.progress import Progress
from chaos.promises import MOST_MOVES_IN_10_S
from chaos.schedule import Schedule
from chaos.shape import SHAPES, Job, Shape
from chaos.starvation import Sample, Starvation
from chaos.world import Incident

from hosts.node import CLONE_NEWNET, call_libc, open_new_namespace


def test_memory_that_grows_after_warming_up_is_seen_and_a_peak_is_not():
    flat = [(2.0 * number, 100 * MIB) for number in range(100)]
    assert growth(flat) == 0
    assert growth(flat[:10]) is None, "too short to tell"
    grows = [(when, int(100 * MIB + when * MIB)) for when, _ in flat]
    assert growth(grows) > 100 * MIB
    peak = [(when, 300 * MIB if 80 < when < 90 else value) for when, value in flat]
    assert growth(peak) == 0
    warming = [(when, (100 if when > 20 else 10) * MIB) for when, _ in flat]
    assert growth(warming) == 0


def test_an_etcd_may_fill_its_log_and_grow_no_more():
    def named(own_bytes: int) -> list[str]:
        watch = MemoryWatch()
        for number in range(100):
            watch.samples["etcd-1", 1].append((2.0 * number, 40 * MIB + (number > 60) * own_bytes))
        return [line.split(" (")[0] for line in watch.grown()]

    assert named(ETCD_LOG_BYTES + 40 * MIB) == []
    assert named(ETCD_LOG_BYTES + 60 * MIB) == ["etcd-1"]


def test_a_process_stays_flat_for_its_role():
    def named(own_bytes: int) -> list[str]:
        watch = MemoryWatch()
        for name in ("a/0", "scheduler-0"):
            for number in range(100):
                watch.samples[name, 1].append((2.0 * number, 10 * MIB + (number > 60) * own_bytes))
        return [line.split(" (")[0] for line in watch.grown()]

    assert named(10 * MIB) == []
    assert named(14 * MIB) == ["scheduler-0"], "which is small"
    assert named(60 * MIB) == ["a/0", "scheduler-0"]


def test_a_run_that_could_judge_too_few_failures_is_no_good_run():
    def violations(allowed: int, not_judged: int) -> list[str]:
        findings = Findings(say=lambda line: None)
        findings.count(ALLOWED, allowed)
        findings.count(NOT_JUDGED, not_judged)
        findings.check_judged(0.0)
        return [violation.kind for violation in findings.violations]

    assert violations(0, 0) == violations(0, 3) == violations(100, 5) == []
    assert violations(0, 4) == violations(100, 6) == ["not judged"]


def test_ranks_with_large_tensors_are_not_watched():
    small, large = Job("a", ("n", "m")), Job("b", ("n", "m"), most_bytes=LARGE_TENSOR_BYTES)
    shape = Shape(jobs=(small, large), worker_nodes=2, servers=1)
    assert with_large_tensors(shape) == {"b/0", "b/1"}
    watch = MemoryWatch(with_large_tensors(shape))
    for name in ("a/0", "b/0"):
        watch.sample(name, os.getpid(), 0.0)
    assert set(watch.samples) == {("a/0", os.getpid())}


def test_memory_is_what_a_process_has_for_itself():
    own_bytes = memory_of(os.getpid())
    with mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for place in range(0, 64 * MIB, mmap.PAGESIZE):
            memory[place] = 1
        more_bytes = memory_of(os.getpid()) - own_bytes
    assert 60 * MIB < more_bytes < 68 * MIB
    assert memory_of(2**22 + 1) is None, "no such process"


def test_a_group_that_is_moved_too_often_is_named_once():
    watch = MoveWatch()
    subject = 'group "0.0" of job "j" (job=1 group=2 epoch=9)'
    line = f"t INFO scheduler group-moved {subject}: to epoch 9 with 2 shards: server A refused it"
    said = [watch.hear(line, 0.01 * number) for number in range(100)]
    assert sum(map(bool, said)) == 1 and 'group "0.0" of job "j" was moved 21 times' in "".join(said)
    assert watch.total == 100


def test_moves_that_are_paced_are_no_storm():
    watch = MoveWatch()
    pace_s = 10 / MOST_MOVES_IN_10_S + 0.1
    line = 't INFO scheduler group-moved group "a" of job "j": x'
    assert not any(watch.hear(line, pace_s * number) for number in range(100))
    assert not watch.hear('t INFO scheduler group-opened group "a" of job "j": x', 0)


def test_progress_is_seen_by_the_other_side(tmp_path: pathlib.Path):
    rank, watcher = Progress(tmp_path / "p"), Progress(tmp_path / "p")
    rank.add(2, steps=1, ops=1, bytes=100)
    rank.set_doing(2, "closes a group")
    rank.add(2, steps=1, groups=1)
    assert watcher.read(2) == {"steps": 2, "ops": 1, "groups": 1, "bytes": 100, "doing": 4}
    assert watcher.doing(2) == "closes a group" and watcher.steps(0) == 0


def test_a_thread_that_waits_for_a_processor_is_seen():
    """Two busy threads on one processor: each waits for about half of the time."""
    program = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"
    started = time.monotonic()
    busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    try:
        watched = Starvation()
        pids = [process.pid for process in busy]
        began = time.monotonic()
        for pid in pids:
            watched.sample(pid, began)
        deadline = began + 30
        while (waited_s := watched.waited_s(pids, began, time.monotonic())) < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert waited_s < time.monotonic() - started, "a wait counts when it ends, also if it began before"
        watched.forget_all_but({pids[0]})
        assert set(watched.samples) == {pids[0]}
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_a_thread_that_gets_hardly_any_processor_is_silenced():
    sample = Sample(10.0, {"1": 0.0, "2": 0.0}, {})
    for tenths in range(1, 5):
        sample = sample.next(10 + 0.5 * tenths, {"1": 0.45 * tenths, "2": 0.25 * tenths})
    assert sample.stretch_s == {"1": pytest.approx(1.8)}, "the other one runs every now and then"
    assert sample.next(12.5, {"1": 1.8, "2": 1.0}).stretch_s == {}
    # One wait of three seconds, which counts when it ends.
    waits = Sample(10.0, {"1": 1.0}, {}).next(10.5, {"1": 1.0}).next(13.0, {"1": 4.0})
    assert waits.stretch_s == {"1": pytest.approx(3.0)}


def test_what_silenced_a_process_that_has_ended_is_known(monkeypatch: pytest.MonkeyPatch):
    waited = iter([{"1": 0.0}, {"1": 2.0}, {"1": 2.0}])
    monkeypatch.setattr(starvation, "waited_by_thread", lambda pid: next(waited, {}))
    watched = Starvation()
    watched.sample(7, 10.0)
    watched.sample(7, 12.0)
    watched.sample(7, 12.001)  # asked for in between: nothing can have been waited for
    assert watched.silenced_s([7], 11.0, 13.0) == 2.0
    assert watched.silenced_s([7], 12.5, 13.0) == 0.0, "it was before that"
    assert watched.waited_s([7], 10.0, 14.0) == 2.0


def test_a_folder_that_is_left_behind_is_named(tmp_path: pathlib.Path):
    assert Before().left(tmp_path / "gone") == []
    assert Before().left(tmp_path) == [f"folder {tmp_path}"]


def sleep_in(namespace: int) -> subprocess.Popen:
    return subprocess.Popen(["sleep", "60"], preexec_fn=lambda: call_libc("setns", namespace, CLONE_NEWNET))


@pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")
def test_a_process_that_is_left_behind_is_named(tmp_path: pathlib.Path):
    before, own = Before(), open_new_namespace()
    before.hold([own])
    with sleep_in(own) as process:
        try:
            assert processes_in([own]) == [f"process {process.pid} in net:[{os.fstat(own).st_ino}]: sleep 60"]
            assert before.left(tmp_path / "gone") == processes_in([own])
        finally:
            process.kill()
    os.close(own)


def is_given_again(number: int) -> bool:
    """To one of the next network namespaces that are made."""
    for _ in range(100):
        namespace = open_new_namespace()
        is_reused = os.fstat(namespace).st_ino == number
        os.close(namespace)
        if is_reused:
            return True
        time.sleep(0.01)  # the kernel takes apart later what is gone
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")
def test_the_number_of_a_namespace_is_the_runs_until_what_is_left_behind_was_looked_for(tmp_path: pathlib.Path):
    # The kernel gives the numbers of namespaces that are gone to others, such as those of a run beside this one.
    before, own = Before(), open_new_namespace()
    number = os.fstat(own).st_ino
    before.hold([own])
    os.close(own)
    assert not is_given_again(number)
    assert before.left(tmp_path / "gone") == []


def test_the_page_has_what_was_done_and_what_met():
    first, second = Fault("node-silent", 1, 10, "server-0"), Fault("server-kill", 3, 2, "server-1")
    incidents = [Incident(fault, fault.at_s, fault.at_s + fault.for_s) for fault in (first, second)]
    outcome = Outcome(
        Schedule(SHAPES["full"], (first, second), 7), incidents, [], [(2.0, "F11: killed", "ABORTED: rank 1")],
        {"faults": 2, "ops": 1234, "groups": 56, "bytes": 3 << 30, OPEN_RANKS_DIED: 17, FENCED: 5, SMALLER_OPS: 41},
        {"rank": {"most_mib": 80.0, "most_growth_mib": 1.0}},
        4.2, 0.75, {"over 1 s": 3}, 0, 5, 600.0, 300.0, 0.1,
    )  # fmt: skip
    record = report.make_record(outcome, "--seed 7", "abc", "a machine")
    assert ["node-silent", "server-kill", "noticing", 1] in record["pairs"]
    assert ["server-kill", "node-silent"] in record["pairs_never_met"]
    page = report.page([{"date": "2026-11-22", **record}])
    assert "2 faults in 10.0 minutes: **0 violations**" in page
    assert "1234 all-reduces" in page and "| node-silent | 0 | 1 |" in page and "0.50 processors" in page
    assert "| `--seed 7` | 10.0 | 2 | 0 | 2026-11-22 | abc | a machine |" in page

    assert "17 were killed, 5 were taken for lost" in page and "41 all-reduces ended with" in page
    assert "took 0.75 s at most" in page

    memory = {"rank": {"most_mib": 90.0, "most_growth_mib": 0.5}}
    other = {**record, "date": "2026-11-23", "memory_mib": memory}
    other["pairs"] = [["server-kill", "node-silent", "open", 2]]
    other["pairs_never_met"] = [["node-silent", "server-kill"]]
    both = report.together([{"date": "2026-11-22", **record}, other])
    del other["longest_after_kill_s"]  # as records before open jobs
    assert report.together([other, record])["longest_after_kill_s"] == 0.75
    assert both["counts"][OPEN_RANKS_DIED] == 34
    assert both["counts"]["ops"] == 2468 and both["wall_s"] == 1200.0 and both["longest_pause_s"] == 4.2
    assert both["memory_mib"]["rank"] == {"most_mib": 90.0, "most_growth_mib": 1.0}
    never = both["pairs_never_met"]
    assert ("server-kill", "node-silent") not in never and ("node-silent", "server-kill") not in never
    assert ("node-silent", "node-silent") in never
