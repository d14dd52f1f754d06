"""What a bench page says, made from records by hand."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import report
from contenders import roster


def case(size_bytes: int, **more) -> dict:
    contenders = {name: {} for name in ("shoal-shm", "gloo")}
    return {"size_bytes": size_bytes, "in_flight": 1, "backward_s": 0, "contenders": contenders} | more


def test_a_page_says_how_far_the_other_build_differs_from_itself():
    control = {"shoal-shm": {"median": 0.934, "low95": 0.812, "high95": 1.04}}
    scenario = {"cases": [case(4, other_build_over_itself=control), case(1 << 20, other_build_over_itself={})]}
    assert report.control_lines(scenario) == [
        "",
        f"Control: {roster.label('shoal-shm')}, the other build / itself: 4 B 0.93 (0.81 .. 1.04).",
    ]
    assert report.control_lines({"cases": [case(4)]}) == [], "an older record"


def test_the_other_build_is_measured_twice_for_a_control():
    once = roster.with_other_build(("shoal-shm", "gloo"), has_control=False)
    twice = roster.with_other_build(("shoal-shm", "gloo"), has_control=True)
    assert [name for name in twice if name not in once] == ["shoal-shm" + roster.CONTROL]
    assert roster.kind("shoal-shm" + roster.CONTROL) == roster.kind("shoal-shm")


def test_a_page_names_the_commits_of_programs_that_are_not_those_of_its_tree():
    machine = dict.fromkeys(("cpu_model", "cpu_count", "kernel", "ucx", "torch", "open_mpi"), "x")
    machine |= {"commit": "aaa", "changed_files": 0, "memory_bytes": 2**34}
    record = {"started_at": "now", "load_average_before": 0.1, "machine": machine}
    assert "commit aaa. x" in report.machine_text(record)
    machine |= {"programs_commit": "bbb", "other_commit": "ccc"}
    expected = "commit aaa. The programs are of commit bbb. The other build is of commit ccc."
    assert expected in report.machine_text(record)
