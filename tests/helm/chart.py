"""Renders the chart with helm."""

import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "shoal"
RELEASE = "training"
NAMESPACE = "reduction"


class Helm:
    """Runs helm on the chart. Values are given as a dictionary in the values file's form."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path):
        self.program = program
        self.values_file = folder / "values.yaml"

    def run(self, *arguments: str, values: dict | None = None) -> subprocess.CompletedProcess:
        self.values_file.write_text(yaml.safe_dump(values or {}), encoding="utf-8")
        command = [str(self.program), *arguments, "--values", str(self.values_file), "--namespace", NAMESPACE]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def render(self, values: dict | None = None, *arguments: str, release: str = RELEASE) -> list[dict]:
        """All objects of the chart."""
        result = self.run("template", release, str(CHART), *arguments, values=values)
        assert result.returncode == 0, result.stderr
        return [document for document in yaml.safe_load_all(result.stdout) if document]

    def refuse(self, values: dict) -> str:
        """What helm says to values that it must not take."""
        result = self.run("template", RELEASE, str(CHART), values=values)
        assert result.returncode != 0, f"taken, but wrong: {values}"
        return result.stderr
