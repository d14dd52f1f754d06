"""How ranks of a job run (rank_program.py): they say what they have done, go on when told to, and end well or not."""

import itertools
from collections.abc import Callable

from hosts.process import Process


def wait_for_line_of_all(ranks: list[Process], pattern: str) -> None:
    for rank in ranks:
        rank.wait_for_line(pattern)


def let_go_on(ranks: list[Process], rounds: int = 1) -> None:
    """Of ranks that were started with --hold, which wait after each round."""
    for rank in ranks:
        for _ in range(rounds):
            rank.say()


def reduce_until(ranks: list[Process], is_enough: Callable[[], bool]) -> None:
    """Of ranks that were started with --hold, and have done round 0: one round after the other."""
    for number in itertools.count(1):
        let_go_on(ranks)
        wait_for_line_of_all(ranks, f"^round {number} done$")
        if is_enough():
            return


def digests(ranks: list[Process]) -> set[str]:
    """Of ranks that must end well; one digest if all got the same bits."""
    found = set()
    for rank in ranks:
        found.add(rank.wait_for_line(r"^digest (\w+)$").group(1))
        rank_exit = rank.wait()
        assert rank_exit == 0, f"{rank}"
    return found


def refusal(rank: Process) -> str:
    """The last line of a rank that must fail with an error of the library: the error's code and text."""
    assert rank.wait() == 1, f"{rank}"
    return rank.output.splitlines()[-1]
