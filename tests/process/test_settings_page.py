"""The page of settings says what the programs say of their options."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import reference_pages  # noqa: E402


def test_it_is_as_the_programs_have_it():
    stale = reference_pages.stale_pages(reference_pages.PAGES_OF_PROGRAMS)
    assert not stale, "run scripts/reference_pages.py"


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server", "shoalctl", "shoal-perf"])
def test_every_option_has_a_row_with_a_meaning(name: str):
    rows = re.findall(r"^\| `-.*?` \| (.*?) \| .*\|$", reference_pages.flags_table(name), re.MULTILINE)
    options = reference_pages.help_of(name).count("\n      Default: ")
    assert len(rows) == options > 10
    assert all(rows)
