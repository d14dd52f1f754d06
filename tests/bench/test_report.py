"""What a bench page says, made from records by hand."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import measurement
import parts
import report
import summary
from contenders import roster
from contenders.case import Measured
from hosts.network import Traffic


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
    machine = dict.fromkeys(("cpu_model", "cpu_count", "kernel", "torch", "open_mpi"), "x")
    machine |= {"commit": "aaa", "changed_files": 0, "memory_bytes": 2**34}
    record = {"started_at": "now", "load_average_before": 0.1, "machine": machine}
    assert "commit aaa. x" in report.machine_text(record)
    machine |= {"programs_commit": "bbb", "other_commit": "ccc"}
    expected = "commit aaa. The programs are of commit bbb. The other build is of commit ccc."
    assert expected in report.machine_text(record)


def test_a_page_says_how_often_the_tensor_leaves_and_enters_the_busiest_nodes():
    entry = {"bytes_out_of_node": 1.5 * 2**20, "bytes_into_node": 2**20}
    scenario = {"ranks_per_node": 4, "cases": [case(1 << 20, contenders={"shoal-node": entry})]}
    assert report.node_lines(scenario)[-1] == f"| {roster.label('shoal-node')}, 1 MiB | 1.50 | 1.00 |"
    assert report.node_lines(scenario | {"ranks_per_node": 1}) == []


def test_the_busiest_node_is_found_for_each_direction():
    before = [Traffic(received=10, sent=20), Traffic(received=1000, sent=2000)]
    after = [Traffic(received=110, sent=50), Traffic(received=1040, sent=2060)]
    assert measurement.most_grown(before, after) == Traffic(received=100, sent=60)


def test_what_ddp_takes_beyond_its_own_time_is_compared_with_a_bare_all_reduce():
    certain = summary.exchange_over_bare([[16.0]] * 3, [[5.0]] * 3, [[10.0]] * 3)
    assert certain == {"median": 1.1, "low95": 1.1, "high95": 1.1}
    [part] = [part for part in parts.PARTS if part.name == "zero-set-up"]
    [scenario] = part.scenarios
    [case_of_part] = scenario.cases
    times_us = {"shoal-ddp": 16.0, "gloo-ddp": 45.0, "ddp-alone": 5.0, "shoal-torch": 10.0, "gloo": 32.0}
    turns = {
        (name, case_of_part): [measurement.Turn(Measured([time_us], time_us, 1.0, 0), 0.5, 0.0, 0, 0, 1.0, 1.0)] * 3
        for name, time_us in times_us.items()
    }

    def lines_with(names: list[str]) -> list[str]:
        record = measurement.case_record(scenario, case_of_part, names, None, turns)
        return report.exchange_lines({"cases": [record]})

    alone, shoal, bare = (roster.label(name) for name in ("ddp-alone", "shoal-ddp", "shoal-torch"))
    lines = lines_with(list(scenario.contenders))
    assert f"({shoal} - {alone}) / {bare}, 25 MiB: 1.10 (1.10 .. 1.10)." in lines
    assert f"({roster.label('gloo-ddp')} - {alone}) / {roster.label('gloo')}, 25 MiB: 1.25 (1.25 .. 1.25)." in lines
    assert lines_with(["shoal-ddp", "shoal-torch"]) == [], "torch's own part is not known"
    assert report.exchange_lines({"cases": [case(4)]}) == [], "an older record"


def test_large_tensors_and_incast_are_measured_with_small_port_buffers_too():
    for name, least_size in (("links", 25 * parts.MIB), ("incast", parts.MIB)):
        [part] = [part for part in parts.PARTS if part.name == name]
        eight_workers = [scenario for scenario in part.scenarios if scenario.workers == 8]
        assert {scenario.worker_link.port_buffer_kib for scenario in eight_workers} == {128, 256}
        assert all(max(each.size_bytes for each in scenario.cases) >= least_size for scenario in eight_workers)


def test_scenarios_of_a_part_have_names_of_their_own():
    for part in parts.PARTS:
        names = [scenario.name for scenario in part.scenarios]
        assert len(set(names)) == len(names), part.name
