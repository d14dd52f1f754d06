"""docs/torch_backend.md lists every virtual function of torch's Backend, and says what the sources say.

virtual_functions_VERSION.txt holds those of a torch that is built against and not installed here, each with how many
arguments it takes: `python3 test_torch_functions.py HEADER` prints them, HEADER being its c10d/Backend.hpp.
"""

import pathlib
import re
import sys

import pytest
import torch
from signatures import arguments_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = pathlib.Path(torch.__path__[0]) / "include/torch/csrc/distributed/c10d/Backend.hpp"
CATEGORIES = ("own", "delegated", "inherited", "refused")


def listed_functions() -> dict[str, str]:
    functions: dict[str, str] = {}
    for line in (ROOT / "docs" / "torch_backend.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1] in CATEGORIES:
            for name in re.findall(r"`(\w+)`", cells[0]):
                assert name not in functions, f"{name} is listed twice"
                functions[name] = cells[1]
    return functions


def without_comments(path: pathlib.Path) -> str:
    return re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))


def declarations() -> str:
    sources = ROOT / "pytorch" / "src"
    return "".join(without_comments(sources / name) for name in ("shoal_backend.h", "module.cc", "group_options.h"))


def virtual_functions(header: pathlib.Path) -> dict[str, int]:
    """How many arguments each takes."""
    text = without_comments(header)
    matches = re.finditer(r"\bvirtual\b[^;{]*?\b(\w+)\(", text)
    return {match[1]: len(arguments_of(text[match.end() :])) for match in matches}


def elsewhere(version: str) -> dict[str, int]:
    lines = (pathlib.Path(__file__).parent / f"virtual_functions_{version}.txt").read_text(encoding="utf-8").split("\n")
    return {name: int(count) for name, count in (line.split() for line in lines if line)}


# Of each torch that is built against.
FUNCTIONS = {"installed": virtual_functions(HEADER), "2.11": elsewhere("2.11")}


@pytest.mark.parametrize("version", FUNCTIONS)
def test_every_virtual_function_of_torch_is_listed(version):
    virtual = set(FUNCTIONS[version])
    assert len(virtual) > 40
    missing, gone = virtual - set(listed_functions()), set(listed_functions()) - virtual
    assert not missing, f"say in docs/torch_backend.md what becomes of {sorted(missing)}"
    if version == "installed" and torch.__version__.startswith("2.15."):  # the version that the page is about
        assert not gone, f"not in torch any more: {sorted(gone)}"


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_sources_declare_what_is_own_or_delegated_and_nothing_else(category):
    declared = declarations()
    for name, of in listed_functions().items():
        if of == category:
            has = re.search(rf"[ *&]{name}\([^;{{]*\)[^;{{(]*[;{{]", declared) is not None
            assert has == (category in ("own", "delegated")), f"{name} is {category}, but declared: {has}"


@pytest.mark.parametrize("version", FUNCTIONS)
def test_functions_without_override_take_as_many_arguments_as_torchs(version):
    """The compiler does not say it when torch changes one of those."""
    declared = re.findall(r"\b(\w+)\(([^;{]*)\)(?: const)?(?: \{[^\n]*\})?;? *\n", declarations())
    unmarked = {name: arguments for name, arguments in declared if name in listed_functions()}
    assert "setBoundDeviceId" in unmarked
    for name, arguments in unmarked.items():
        if name not in FUNCTIONS[version]:
            assert not (version == "installed" and torch.__version__.startswith("2.15.")), f"torch has no {name}"
            continue  # not in an older torch
        assert FUNCTIONS[version][name] == len(arguments_of(arguments)), name


if __name__ == "__main__":
    for function, count in sorted(virtual_functions(pathlib.Path(sys.argv[1])).items()):
        print(function, count)
