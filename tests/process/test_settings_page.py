"""The page of settings says what the programs say of their options."""

import pathlib
import re
import subprocess
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
    rows = re.findall(r"^\|(?: .* \|)? `-.*?` \| (.*?) \| .*\|$", reference_pages.flags_table(name), re.MULTILINE)
    commands = [[], *([each] for each in reference_pages.commands_of(name))]
    helps = "".join(reference_pages.help_of(name, *command) for command in commands)
    entries = set(re.findall(r"^  -.*\n(?:      .*\n)+?      Default: .*$", helps, re.MULTILINE))
    assert len(rows) == len(entries) > 10
    assert all(rows)


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server", "shoalctl", "shoal-perf"])
def test_one_letter_asks_for_help_as_well(name: str):
    command = [reference_pages.PROGRAMS / name, "-h"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (said.stdout, said.stderr) == (reference_pages.help_of(name), "")


@pytest.mark.parametrize("name", ["shoal-scheduler", "shoal-server", "shoalctl", "shoal-perf"])
def test_help_fits_a_hundred_columns(name: str):
    for command in ([], *([each] for each in reference_pages.commands_of(name))):
        assert [line for line in reference_pages.help_of(name, *command).splitlines() if len(line) > 100] == []


def test_the_exit_codes_of_shoalctl_are_on_it():
    rows = re.findall(r"^\| `(\d)` \| (.+) \|$", reference_pages.exit_codes_table("shoalctl"), re.MULTILINE)
    assert [code for code, _ in rows] == ["0", "1", "2", "3"]
    assert rows[3][1] == "doctor found a problem, or verify a difference"
    assert reference_pages.exit_codes_table("shoal-server") == "", "its help has none"
