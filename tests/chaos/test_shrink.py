"""Shrinking, on a runner that only looks at the schedule."""

from collections.abc import Callable

from chaos.fault import Fault
from chaos.schedule import Schedule
from chaos.shape import SHAPES
from chaos.shrink import shrink, until_first_violation


def make_schedule(count: int) -> Schedule:
    faults = [
        Fault("node-silent" if number % 2 else "server-kill", 5.0 + number, 8.0, "server-0") for number in range(count)
    ]
    return Schedule(SHAPES["small"], tuple(faults), 1, 10.0)


class Runner:
    def __init__(self, fails: Callable[[list[Fault]], bool], wobbles: bool = False):
        self.judge, self.wobbles, self.runs = fails, wobbles, 0

    def __call__(self, schedule: Schedule) -> bool:
        self.runs += 1
        if self.wobbles and self.runs % 2:
            return False
        return self.judge(list(schedule.faults))


def kinds(schedule: Schedule) -> list[str]:
    return [fault.kind for fault in schedule.faults]


def test_the_two_faults_that_matter_are_left():
    failing = make_schedule(16)
    guilty = {failing.faults[3].at_s, failing.faults[10].at_s}
    distance = max(guilty) - min(guilty)

    def fails(faults: list[Fault]) -> bool:
        return any(
            abs(other.at_s - one.at_s - distance) < 1e-6 and one.kind == "node-silent"
            for one in faults
            for other in faults
        )

    runner = Runner(fails)
    least = shrink(failing, runner, 1000)
    assert kinds(least) == ["node-silent", "server-kill"]
    assert runner.runs < 100


def test_what_is_left_begins_after_a_second_and_is_short():
    least = shrink(make_schedule(8), Runner(lambda faults: any(fault.kind == "node-silent" for fault in faults)), 1000)
    [fault] = least.faults
    assert (fault.at_s, fault.for_s) == (1.0, 1.0)


def test_a_duration_that_matters_is_kept():
    least = shrink(make_schedule(4), Runner(lambda faults: any(fault.for_s >= 4 for fault in faults)), 1000)
    assert [fault.for_s for fault in least.faults] == [4.0]


def test_a_failure_that_comes_every_second_time_is_found_all_the_same():
    runner = Runner(lambda faults: any(fault.kind == "node-silent" for fault in faults), wobbles=True)
    assert kinds(shrink(make_schedule(8), runner, 1000)) == ["node-silent"]


def test_it_ends_when_its_time_is_over():
    times = iter(range(0, 10_000, 10))
    runner = Runner(lambda faults: True)
    least = shrink(make_schedule(64), runner, 35, clock=lambda: next(times))
    assert runner.runs <= 4 and len(least.faults) < 64


def test_a_failure_that_never_comes_again_leaves_the_schedule_as_it_was():
    failing = make_schedule(6)
    assert kinds(shrink(failing, Runner(lambda faults: False), 1000)) == kinds(failing)


def test_faults_after_the_first_violation_are_dropped_at_once():
    assert len(until_first_violation(make_schedule(10), 8.5).faults) == 4
