"""Drawing: the same seed gives the same schedule, everything drawn can be done, and in time all pairs of kinds meet."""

import dataclasses
import itertools
import json
import subprocess
import sys
from collections import Counter

import pytest

from chaos import promises, schedule, shape
from chaos.fault import KINDS, Fault, check, kinds_for
from chaos.pairs import Phases, count_pairs
from chaos.run import command_to_record
from chaos.schedule import SCHEDULES, draw_schedule
from chaos.shape import SHAPES
from hosts.cluster import ROOT


def draw(seed: int, minutes: float = 30, name: str = "full") -> schedule.Schedule:
    return draw_schedule(seed, minutes * 60, SHAPES[name])


def test_the_same_seed_gives_the_same_schedule_and_another_one_another():
    assert draw(7) == draw(7)
    assert draw(7).faults != draw(8).faults


def test_the_same_seed_gives_the_same_schedule_in_another_process():
    program = "from chaos import schedule, shape; print(schedule.draw_schedule(7, 600, shape.SHAPES['full']))"
    environment = {"PYTHONPATH": str(ROOT / "tests"), "PYTHONHASHSEED": "17"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(draw_schedule(7, 600, SHAPES["full"]))


@pytest.mark.parametrize("name", SHAPES)
def test_every_drawn_fault_can_be_done_and_ends_in_time(name: str):
    for seed in range(20):
        drawn = draw(seed, 10, name)
        assert drawn.faults
        for fault in drawn.faults:
            check(fault, drawn.shape)
        assert drawn.end_s <= 600 + 1


def test_every_kind_is_drawn_and_durations_spread_over_three_magnitudes():
    faults = list(itertools.chain.from_iterable(draw(seed).faults for seed in range(20)))
    assert {fault.kind for fault in faults} == {kind.name for kind in kinds_for(SHAPES["full"])}
    silences = [fault.for_s for fault in faults if fault.kind == "node-silent"]
    assert min(silences) < 0.5 and max(silences) > 30


@pytest.mark.parametrize("name", SHAPES)
def test_ranks_of_open_jobs_have_faults_of_their_own_in_every_shape(name: str):
    open_names = {job.name for job in SHAPES[name].jobs if job.is_open}
    assert open_names and len(open_names) < len(SHAPES[name].jobs), "jobs of fixed size run beside it"
    counts = Counter()
    for fault in itertools.chain.from_iterable(draw(seed, name=name).faults for seed in range(10)):
        if fault.kind.startswith("open-rank-"):
            assert fault.target.split("/")[0] in open_names
            counts[fault.kind] += 1
        elif fault.kind.startswith(("rank-", "job-")):
            assert fault.target.split("/")[0] not in open_names
        if fault.kind == "open-rank-stop":
            assert fault.for_s > SHAPES[name].lease_s, "it is taken for lost"
    assert set(counts) == {"open-rank-kill", "open-rank-stop", "open-rank-leave"} and min(counts.values()) > 10


def test_faults_begin_while_others_are_noticed_settled_open_and_healed():
    drawn = draw(7, 180)
    phases = Phases.of_lease(drawn.shape.lease_s)
    counts = count_pairs(drawn.faults, phases)
    for phase in ("noticing", "settling", "open", "healing"):
        assert sum(count for (_, _, each), count in counts.items() if each == phase) > 50, phase
    assert len(drawn.faults) > 300
    kinds = [kind.name for kind in kinds_for(drawn.shape) if not kind.ends_jobs]
    met = {(one, other) for one, other, _ in counts}
    never = [pair for pair in itertools.product(kinds, kinds) if pair not in met]
    assert len(never) < 0.25 * len(kinds) ** 2, f"of one schedule of 3 hours: {never}"


def test_there_is_calm_after_each_episode():
    drawn = draw(7)
    of_rank, of_etcd = Fault("rank-kill", 0, 1, "a/0"), Fault("etcd-kill", 0, 1, "etcd-0")
    calm = schedule.calm_of(drawn.shape, [of_rank])
    assert calm > promises.works_again_s(drawn.shape)
    assert schedule.calm_of(drawn.shape, [of_rank, of_etcd]) > promises.leader_replaced_s(drawn.shape)
    ends = itertools.accumulate((fault.at_s + fault.for_s for fault in drawn.faults), max)
    gaps = [fault.at_s - end for end, fault in zip(ends, drawn.faults[1:])]
    assert sum(gap > calm - 0.01 for gap in gaps) > 10


def test_a_process_is_not_killed_while_it_is_stopped():
    for seed in range(20):
        faults = [fault for fault in draw(seed, 60).faults if fault.kind in ("server-stop", "server-kill")]
        for one, other in itertools.pairwise(sorted(faults, key=lambda fault: (fault.target, fault.at_s))):
            if one.target == other.target:
                assert other.at_s > one.at_s + one.for_s or one.at_s > other.at_s + other.for_s


def test_a_schedule_comes_back_from_its_file_as_it_was(tmp_path):
    drawn = dataclasses.replace(draw(3, 5), name="three", clause="F3")
    schedule.save(drawn, tmp_path / "three.json")
    assert schedule.load(tmp_path / "three.json") == drawn


def test_only_the_kinds_that_were_asked_for_are_drawn():
    drawn = draw_schedule(1, 600, SHAPES["small"], {"server-kill", "node-silent"})
    assert {fault.kind for fault in drawn.faults} == {"server-kill", "node-silent"}


def test_half_of_the_faults_are_of_the_kinds_that_shall_come_often():
    drawn = draw_schedule(1, 3600, SHAPES["full"], often=frozenset({"open-rank-kill"}))
    deaths = sum(fault.kind == "open-rank-kill" for fault in drawn.faults)
    assert 0.35 < deaths / len(drawn.faults) < 0.65
    assert len({fault.kind for fault in drawn.faults}) > 10, "the others come as well"


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (Fault("sabotage", 1, 1, "server-0"), "there is no fault 'sabotage'"),
        (Fault("server-kill", 1, 1, "worker-0"), "can't be done to 'worker-0'"),
        (Fault("path-silent", 1, 1, "server-0"), "needs a peer"),
        (Fault("node-silent", 1, 1, "server-0", "server-1"), "has no peer"),
        (Fault("path-silent", 1, 1, "server-0", "server-0"), "which is no other node"),
        (Fault("node-silent", -1, 1, "server-0"), "begins before the start"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
def test_a_fault_that_can_not_be_done_is_refused(fault: Fault, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        check(fault, SHAPES["small"])


def test_a_job_on_a_node_that_is_missing_is_refused():
    document = shape.to_document(SHAPES["small"])
    document["worker_nodes"] = 1
    with pytest.raises(ValueError, match="has ranks on worker-2"):
        shape.from_document(json.loads(json.dumps(document)))


@pytest.mark.parametrize("path", sorted(SCHEDULES.glob("*.json")), ids=lambda path: path.stem)
def test_every_written_schedule_says_what_happens_what_should_and_by_which_clause(path):
    written = schedule.load(path)
    assert written.name == path.stem
    assert written.happens and written.should_happen and written.clause
    bugs = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "tests" / "mutations").glob("*mutations*.py"))
    assert written.simulator.startswith("none: ") or f'"{written.simulator}"' in bugs
    assert all(fault.kind in KINDS for fault in written.faults)


def test_the_folder_for_logs_is_not_recorded():
    assert command_to_record(["--seed", "7", "--logs", "/somewhere", "--results"]) == "--seed 7 --results"
    assert command_to_record(["--logs=/somewhere", "--minutes", "3"]) == "--minutes 3"
