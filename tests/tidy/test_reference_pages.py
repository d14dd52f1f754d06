"""The pages that are made from tables in the code say what the code says."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import reference_pages  # noqa: E402


def test_pages_are_as_the_code_has_them():
    assert not reference_pages.stale_pages(), "run scripts/reference_pages.py"


def test_every_metric_is_on_its_page():
    table = (ROOT / "metrics" / "metric_table.h").read_text(encoding="utf-8")
    names = re.findall(r"^  X\(k", table, re.MULTILINE)
    rows = re.findall(r"^\| `shoal_\w+` \|", reference_pages.metrics_page(), re.MULTILINE)
    assert len(rows) == len(names) > 30


def test_every_kind_of_event_is_on_its_page():
    table = (ROOT / "core" / "log_event.h").read_text(encoding="utf-8")
    kinds = re.findall(r"^  X\(k", table, re.MULTILINE)
    rows = re.findall(r"^\| (?:scheduler|server|process) \| `", reference_pages.events_page(), re.MULTILINE)
    assert len(rows) == len(kinds) > 50
