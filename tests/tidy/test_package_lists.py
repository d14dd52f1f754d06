"""What `make demo` and `make test` install: each package in one list, and Python's pinned to one release."""

import pathlib
import re

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def entries(name: str) -> list[str]:
    lines = (SCRIPTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["debian_packages", "requirements"])
def test_a_package_is_in_one_list_once(name):
    both = entries(f"{name}.txt") + entries(f"{name}_tests.txt")
    assert sorted(both) == sorted(set(both))


def test_python_packages_are_pinned():
    for line in entries("requirements.txt") + entries("requirements_tests.txt"):
        assert re.fullmatch(r"[\w-]+==[\w.]+", line), line
