"""docs/security.md says by which test each of its promises is shown: those tests are there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"


def names_of_tests() -> set[str]:
    names = set()
    for path in (ROOT / "tests").rglob("*_test.cc"):
        found = re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", path.read_text(), re.MULTILINE)
        names |= {f"{suite}.{name}" for suite, name in found}
    for path in (ROOT / "tests").rglob("test_*.py"):
        names |= set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
    return names


def test_each_promise_is_shown_by_tests_that_are_there():
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    header = next(number for number, row in enumerate(rows) if row[2].strip() == "shown by")
    promises = rows[header + 2 :]
    assert len(promises) >= 14, "the page's last table"
    there = names_of_tests()
    for who, what, tests in promises:
        named = re.findall(r"`([\w.]+)`", tests)
        assert named, f"{who.strip()} {what.strip()}: no test"
        assert set(named) <= there, f"{what.strip()}: {set(named) - there}"
