"""Fixtures of the chart's tests."""

import pathlib
import subprocess
import sys

import pytest

from chart import ROOT, Helm

sys.path.insert(0, str(ROOT / "tests" / "process"))  # monitoring.py


@pytest.fixture(scope="session")
def tools() -> pathlib.Path:
    subprocess.run([str(ROOT / "scripts" / "helm_tool.sh")], check=True, stdin=subprocess.DEVNULL)
    return ROOT / "build" / "tools"


@pytest.fixture(scope="session", params=["helm", "helm4"])
def helm_program(tools: pathlib.Path, request) -> pathlib.Path:
    """Helm 3 and Helm 4: what is rendered, linted or refused, is so by both."""
    return tools / request.param


@pytest.fixture
def helm(helm_program: pathlib.Path) -> Helm:
    return Helm(helm_program)
