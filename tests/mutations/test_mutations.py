"""The mutations fit the sources as they are. That the simulator's seeds find them is tried by `make mutants`."""

import pytest

from mutation import ROOT
from mutations import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_fits(mutation):
    texts = {}
    for edit in mutation.edits:
        text = texts.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        texts[edit.file] = edit.apply(text)
        assert texts[edit.file] != text


def test_names_are_given_once():
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
