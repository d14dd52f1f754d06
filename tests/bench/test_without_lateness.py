"""The build that shows what finding slow ranks costs is made of today's sources."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import without_lateness


@pytest.mark.parametrize("file", without_lateness.BOOKS)
def test_every_function_that_is_told_of_something_returns_at_once(file: str):
    text = (without_lateness.ROOT / file).read_text(encoding="utf-8")
    book, count = without_lateness.BOOKS[file]
    changed = without_lateness.without(text, book, count)
    assert changed.count("\n  return;\n") + changed.count("\n  return false;\n") >= count
    assert len(changed.splitlines()) == len(text.splitlines()) + count
    with pytest.raises(ValueError, match=book):
        without_lateness.without(text, book, count + 1)
