"""The bench's part `survive`, in small: training goes on through kills, restarts and a scheduler that is away."""

import dataclasses
import os
import pathlib
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from hosts.cluster import need_root
from hosts.node import HostError
from survival import findings
from survival.cluster import Shape
from survival.faults import Kill, RollingRestart, SchedulerAway, random_kills
from survival.run import steps_before_the_last_fault, train

PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build/bin"))
LEASE_TTL_MS = 1500
SMALL_MODEL = (
    *("--width", "96", "--layers", "2", "--heads", "4", "--batch", "2", "--context", "32"),
    *("--bucket-mib", "0.25"),
)
LIMIT_S = 300  # of a run that takes 15 s; a slow disk alone has 40 s to read PyTorch from


@pytest.fixture
def needs_root() -> None:
    need_root("survival")


@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    ("nodes", "ranks"), [(1, 2), pytest.param(2, 4, marks=pytest.mark.long)], ids=["one node", "rails"]
)
def test_training_ends_with_the_same_weights_whatever_is_killed(needs_root: None, nodes: int, ranks: int):
    shape = Shape(nodes=nodes, ranks=ranks, servers=3, steps=320, model=SMALL_MODEL, lease_ttl_ms=LEASE_TTL_MS)
    undisturbed = train(ROOT, PROGRAMS, shape, [], LIMIT_S, print)
    faults = [
        *(Kill(10 + 10 * server, 0.005, server) for server in range(3)),
        RollingRestart(45),
        SchedulerAway(50, seconds=0, steps=20),
    ]
    disturbed = train(ROOT, PROGRAMS, shape, faults, LIMIT_S, print)
    assert disturbed["digests"] == undisturbed["digests"]
    assert len(set(disturbed["digests"])) == 1
    assert disturbed["losses"] == undisturbed["losses"]
    assert [fault["kind"] for fault in disturbed["faults"]] == ["kill"] * 3 + ["rolling restart", "scheduler away"]
    assert "rank-lost" not in disturbed["events"]
    # The scheduler that was started again saw nothing opened; the one of the undisturbed run says how ranks reduce.
    assert any("2 rails" in text for text in undisturbed["opened"]) == (nodes > 1), undisturbed["opened"]


@dataclasses.dataclass(frozen=True)
class Look:
    """Does nothing but see, after so many seconds, how far the training is."""

    at_step: int
    seconds: float = 0
    steps: int = 0

    def strike(self, _cluster, training) -> dict:
        time.sleep(self.seconds)
        return {"steps_done": training.read_steps_done()}


@pytest.mark.timeout(400)
def test_training_waits_for_a_last_fault_that_comes_late(needs_root: None):
    shape = Shape(nodes=1, ranks=2, servers=1, steps=12, model=SMALL_MODEL, lease_ttl_ms=LEASE_TTL_MS)
    faults = [Look(at_step=6, seconds=2), Look(at_step=3, steps=4)]  # without a gate it is over 0.1 s after step 6
    record = train(ROOT, PROGRAMS, shape, faults, LIMIT_S, print)
    assert record["faults"][0]["steps_done"] == 6 and record["held"]
    assert len(record["step_ended_at"]) == 12


def test_a_fault_after_which_too_few_steps_are_left_is_refused():
    shape = Shape(steps=320)
    assert steps_before_the_last_fault(shape, [Look(at_step=10), Look(at_step=297, steps=20)]) == 298
    with pytest.raises(HostError, match="a fault at step 299 needs 21 more steps"):
        steps_before_the_last_fault(shape, [Look(at_step=299, steps=20)])
    with pytest.raises(HostError, match="needs 1 more steps"):
        steps_before_the_last_fault(shape, [Look(at_step=319), Look(at_step=10)])
    with pytest.raises(HostError, match="only the last fault may wait for steps"):
        steps_before_the_last_fault(shape, [Look(at_step=10, steps=1), Look(at_step=20)])


def test_a_kill_is_charged_with_the_slower_step_of_two():
    ends = [10.0, 11.0, 12.0, 15.0, 16.0, 17.0]
    record = {"step_ended_at": ends, "faults": [{"kind": "kill", "began_at": 11.9}, {"kind": "kill", "began_at": 15.5}]}
    assert findings.added_by_each_kill_s(record, 1.0) == [2.0, 0.0]


def test_all_reduces_are_sorted_by_when_they_ended():
    record = {"all_reduce_ended_at": [1.0, 2.0, 3.0, 4.0, 5.0], "all_reduce_seconds": [0.1, 0.2, 0.9, 0.2, 0.2]}
    around = findings.ops_around(record, {"began_at": 2.5, "ended_at": 4.5})
    assert [around[name]["count"] for name in ("before", "during", "after")] == [2, 2, 1]
    assert around["late"] == 1, "0.9 is more than 1.5 times 0.2"


def test_random_kills_are_the_same_for_the_same_seed_and_leave_the_ends_alone():
    shape = Shape(steps=200)
    kills = random_kills(30, shape, 0.1, seed=7)
    assert kills == random_kills(30, shape, 0.1, seed=7)
    assert kills != random_kills(30, shape, 0.1, seed=8)
    assert all(10 <= kill.at_step < 190 and 0 <= kill.delay_s <= 0.1 and kill.server < 3 for kill in kills)
