"""Every clause of docs/failover.md can be told from the events of the scheduler, a server's log, or what a rank says:
for each there is a test that brings it about on real programs and looks for it there (Cluster.told)."""

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]
FAILOVER = TESTS.parent / "docs" / "failover.md"
# What ranks and servers keep so that a move costs nothing: it is told by the move (F1) alone.
KEPT = {"F7", "F8", "F9"}


def test_every_clause_is_told_in_a_test():
    clauses = set(re.findall(r"^- (F\d+) ", FAILOVER.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(clauses) > 20 and KEPT < clauses
    sources = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.glob("*/test_*.py"))
    told = set(re.findall(r'\btold\(\s*"(F\d+)"', sources))
    assert told == clauses - KEPT, f"not told: {sorted(clauses - KEPT - told)}; no clauses: {sorted(told - clauses)}"
