"""Renders the chart with helm."""

import functools
import json
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "shoal"
RELEASE = "training"
NAMESPACE = "reduction"

# The one in C, as the dashboard's hundreds of lines are in many a rendering.
LOADER = yaml.CSafeLoader


def documents(text: str) -> list[dict]:
    return [document for document in yaml.load_all(text, Loader=LOADER) if document]


@functools.cache
def run_helm(command: tuple[str, ...], values: str) -> subprocess.CompletedProcess:
    """Once for all tests that ask for the same."""
    return subprocess.run(command, input=values, capture_output=True, text=True, check=False, timeout=60)


class Helm:
    """Runs helm on the chart. Values are given as a dictionary in the values file's form."""

    def __init__(self, program: pathlib.Path):
        self.program = program
        self.namespace = NAMESPACE

    def run(self, *arguments: str, values: dict | None = None) -> subprocess.CompletedProcess:
        command = (str(self.program), *arguments, "--values", "-", "--namespace", self.namespace)
        # In JSON, because Python's YAML would write y for "y".
        return run_helm(command, json.dumps(values or {}))

    def render_text(self, values: dict | None = None, *arguments: str, release: str = RELEASE) -> str:
        result = self.run("template", release, str(CHART), *arguments, values=values)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def render(self, values: dict | None = None, *arguments: str, release: str = RELEASE) -> list[dict]:
        """All objects of the chart."""
        text = self.render_text(values, *arguments, release=release)
        return documents(text)

    def refuse(self, values: dict) -> str:
        """What helm says to values that it must not take."""
        result = self.run("template", RELEASE, str(CHART), values=values)
        assert result.returncode != 0, f"taken, but wrong: {values}"
        return result.stderr


def one(objects: list[dict], kind: str, component: str) -> dict:
    found = [
        item
        for item in objects
        if item["kind"] == kind and item["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    assert len(found) == 1, f"{len(found)} objects of kind {kind} for the {component}"
    return found[0]


def container(workload: dict) -> dict:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only


def selects(selector: dict, labels: dict) -> bool:
    return bool(selector) and selector.items() <= labels.items()
