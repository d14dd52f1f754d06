"""docs/torch_backend.md lists every virtual function of torch's Backend, and says what the sources say."""

import pathlib
import re

import pytest
import torch

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


def test_every_virtual_function_of_torch_is_listed():
    virtual = set(re.findall(r"\bvirtual\b[^;{]*?\b(\w+)\(", without_comments(HEADER)))
    assert len(virtual) > 50
    missing, gone = virtual - set(listed_functions()), set(listed_functions()) - virtual
    assert not missing, f"say in docs/torch_backend.md what becomes of {sorted(missing)}"
    if torch.__version__.startswith("2.15."):  # the version that the page is about; an older one lacks some
        assert not gone, f"not in torch any more: {sorted(gone)}"


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_sources_declare_what_is_own_or_delegated_and_nothing_else(category):
    declared = declarations()
    for name, of in listed_functions().items():
        if of == category:
            has = re.search(rf"[ *&]{name}\([^;{{]*\)[^;{{(]*[;{{]", declared) is not None
            assert has == (category in ("own", "delegated")), f"{name} is {category}, but declared: {has}"


def test_functions_without_override_take_as_many_arguments_as_torchs():
    """The compiler does not say it when torch changes one of those."""
    names = re.findall(r"\b(\w+)\([^;{]*\)(?: const)?(?: \{[^\n]*\})?;?\n", declarations())
    unmarked = {name for name in names if name in listed_functions()}
    for name in sorted(unmarked):
        pattern = rf"\bvirtual\b[^;{{]*?\b{name}\(([^{{]*?)\)\s*(?:const)?\s*\{{"
        arguments = re.search(pattern, HEADER.read_text(encoding="utf-8"))
        if arguments is None and not torch.__version__.startswith("2.15."):
            continue  # not in an older torch
        assert arguments is not None, f"{name} is not in torch's header as this test reads it"
        torch_types = len([part for part in arguments[1].split(",") if part.strip()])
        ours = re.search(rf"\b{name}\(([^;{{]*)\)", declarations())
        assert torch_types == len([part for part in ours[1].split(",") if part.strip()]), name
