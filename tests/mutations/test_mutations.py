"""The mutations fit the sources as they are, and the tests that have to find them exist. That they are found is tried
by `make mutants`."""

import re

import pytest

from mutation import ROOT, CxxTest, PythonTest
from mutations import MUTATIONS

TESTS = sorted({mutation.test for mutation in MUTATIONS if mutation.test is not None}, key=str)


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


def sources_of(program: str) -> str:
    """The text of the .cc files that CMake compiles for it, and of the headers beside them, which may hold a suite."""
    text = ""
    for file in (ROOT / "tests").rglob("CMakeLists.txt"):
        registered = re.search(rf"shoal_add_test\({program}\s([^)]*)\)", file.read_text(encoding="utf-8"))
        for from_root, source in re.findall(
            r"(\$\{CMAKE_SOURCE_DIR\}/)?([\w/]+\.cc)", registered[1] if registered else ""
        ):
            path = (ROOT if from_root else file.parent) / source
            for part in (path, *sorted(path.parent.glob("*.h"))):
                text += part.read_text(encoding="utf-8")
    return text


@pytest.mark.parametrize("test", [test for test in TESTS if isinstance(test, CxxTest)], ids=str)
def test_cxx_test_exists(test):
    suite, name = re.fullmatch(r"(?:\w+/)?(\w+)\.(\w+)(?:/\w+)?", test.name).groups()
    assert re.search(rf"^TEST(_F|_P)?\({suite}, {name}\)", sources_of(test.program), re.MULTILINE)


@pytest.mark.parametrize("test", [test for test in TESTS if isinstance(test, PythonTest)], ids=str)
def test_python_test_exists(test):
    function = test.name.split("[")[0]
    assert re.search(rf"^def {function}\(", (ROOT / test.file).read_text(encoding="utf-8"), re.MULTILINE)
