"""The phases of a fault, and which pairs are counted."""

from chaos.fault import Fault
from chaos.pairs import Phases, count_pairs, overlapping_phase

PHASES = Phases(noticed_s=4, settled_s=5, healed_s=6)
LONG = Fault("node-silent", 10, 20, "server-0")


def test_a_fault_is_noticed_then_settles_then_is_open_then_heals():
    moments = {9.9: "", 10: "noticing", 13.9: "noticing", 14: "settling", 18.9: "settling", 19: "open", 30: "open"}
    moments |= {30.1: "healing", 36: "healing", 36.1: ""}
    assert {at: overlapping_phase(LONG, at, PHASES) for at in moments} == moments


def test_a_short_fault_heals_at_once():
    short = Fault("node-silent", 10, 0.5, "server-0")
    assert overlapping_phase(short, 10.4, PHASES) == "noticing"
    assert overlapping_phase(short, 10.6, PHASES) == "healing"


def test_pairs_are_ordered_and_counted_by_phase():
    second = Fault("server-kill", 12, 1, "server-1")
    third = Fault("server-kill", 33, 1, "server-1")
    assert count_pairs([third, LONG, second], PHASES) == {
        ("node-silent", "server-kill", "noticing"): 1,
        ("node-silent", "server-kill", "healing"): 1,
    }


def test_two_that_begin_together_count_once():
    other = Fault("server-kill", 10, 1, "server-1")
    assert sum(count_pairs([LONG, other], PHASES).values()) == 1
