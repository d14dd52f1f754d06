"""The pages that are made from tables in the code say what the code says."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import reference_pages  # noqa: E402


def test_pages_are_as_the_code_has_them():
    assert not reference_pages.stale_pages(reference_pages.PAGES), "run scripts/reference_pages.py"


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


def test_every_refusal_is_on_the_page_of_errors_with_a_code_that_is_there():
    frame = (ROOT / "core" / "frame.h").read_text(encoding="utf-8")
    names = re.findall(r"^  X\(k", frame.split("#define SHOAL_REFUSALS", 1)[1], re.MULTILINE)
    codes, refusals = reference_pages.errors_page().split("## Why a server refuses")
    rows = re.findall(r"^\| `[a-z-]+` \| .+ \| `([A-Z_]+)` \|$", refusals, re.MULTILINE)
    assert len(rows) == len(names) - 1 > 10, "all but `none`"
    assert all(f"| `{code}` |" in codes for code in rows)


def test_every_code_is_on_the_page_of_errors():
    header = (ROOT / "worker/include/shoal/worker.h").read_text(encoding="utf-8")
    codes = header.split("typedef enum shoal_code {", 1)[1].split("}")[0]
    names = re.findall(r"^  SHOAL_(\w+) = \d+", codes, re.MULTILINE)
    rows = re.findall(r"^\| `([A-Z_]+)` \|", reference_pages.errors_page().split("## Why")[0], re.MULTILINE)
    assert rows == names
