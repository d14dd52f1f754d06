"""The chart's alerts and dashboard, and the programs of Prometheus that try them."""

import functools
import json
import subprocess

from hosts.cluster import ROOT

MONITORING = ROOT / "helm" / "shoal" / "monitoring"
RULES = MONITORING / "rules.yaml"
DASHBOARD = MONITORING / "dashboard.json"


@functools.cache
def tool(name: str) -> str:
    """prometheus or promtool."""
    subprocess.run([ROOT / "scripts" / "prometheus_tool.sh"], check=True, stdin=subprocess.DEVNULL)
    return str(ROOT / "build" / "tools" / name)


def panels() -> list[dict]:
    listed = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in listed if panel["type"] != "row"]


def dashboard_queries(rate_interval: str) -> dict[str, str]:
    """By panel and target, as Grafana sends them with all jobs and servers chosen."""
    variables = {"$__rate_interval": rate_interval, "$instance": ".*", "$training_job": ".*"}
    found = {}
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in variables.items():
                expression = expression.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = expression
    return found
