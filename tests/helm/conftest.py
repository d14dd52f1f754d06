"""Fixtures of the chart's tests."""

import pathlib
import subprocess
import sys

import pytest

from chart import ROOT, Helm

sys.path.insert(0, str(ROOT / "tests" / "process"))  # monitoring.py


@pytest.fixture(scope="session")
def helm_program() -> pathlib.Path:
    subprocess.run([str(ROOT / "scripts" / "helm_tool.sh")], check=True, stdin=subprocess.DEVNULL)
    return ROOT / "build" / "tools" / "helm"


@pytest.fixture
def helm(helm_program: pathlib.Path, tmp_path: pathlib.Path) -> Helm:
    return Helm(helm_program, tmp_path)
