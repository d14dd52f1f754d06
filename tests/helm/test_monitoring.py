"""Alerts and dashboard: Prometheus takes them, they fire when they should, and every name in them is exported."""

import json
import pathlib
import re
import subprocess

import pytest
import yaml

from chart import RELEASE, ROOT, Helm
from monitoring import DASHBOARD, RULES, dashboard_queries, panels, tool

CASES = pathlib.Path(__file__).with_name("alerts.yaml")
ALL = {
    "monitoring": {part: {"enabled": True} for part in ("podMonitor", "alerts", "dashboard")},
    "networkPolicy": {"monitoring": [{"namespaceSelector": {}}]},
}
# Of docs/metrics.md: name, type, label.
METRIC = re.compile(r"^\| `(shoal_\w+)` \| (\w+) \| (?:`(\w+)`)? *\|", re.MULTILINE)
# What Prometheus adds to each sample, and makes of a histogram.
SCRAPED = {"instance", "namespace", "job", "le"}
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def promtool(*arguments: object) -> subprocess.CompletedProcess:
    command = [tool("promtool"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def alerts() -> dict[str, dict]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def expressions() -> dict[str, str]:
    return dashboard_queries("1m") | {name: rule["expr"] for name, rule in alerts().items()}


@pytest.fixture(scope="module")
def metrics() -> dict[str, tuple[str, str]]:
    """Type and label of each metric, as documented; tests/process holds the programs to that page."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    return {name: (kind, label) for name, kind, label in METRIC.findall(page)}


# ---- alerts ----


def test_prometheus_takes_the_alerts(tmp_path):
    checked = promtool("check", "rules", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_when_it_should_and_not_else(tmp_path):
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    fired = set()
    cases["rule_files"] = [str(RULES)]
    for case in cases["tests"]:
        case["interval"] = "1m"
        listed = {check["alert"] for check in case["alert_rule_test"]}
        if not listed:  # nothing fires at any time
            case["alert_rule_test"] = [
                {"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": []}
                for alert in alerts()
                for minute in range(11, 25)  # before that, what is new and above 0 counts as risen
            ]
            continue
        for check in case["alert_rule_test"]:
            fired |= {check["alert"]} if check["fires"] else set()
            check["alertname"], check["eval_time"] = check.pop("alert"), check.pop("at")
            check["exp_alerts"] = [{"exp_labels": labels} for labels in check.pop("fires")]
    assert fired == set(alerts()), "each has a case in which it fires"
    file = tmp_path / "cases.yaml"
    # Annotations are not what these cases are about: without them promtool compares labels alone.
    bare = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(bare), encoding="utf-8")
    cases["rule_files"] = ["rules.yaml"]
    file.write_text(yaml.safe_dump(cases), encoding="utf-8")
    tested = promtool("test", "rules", file)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_alert_says_what_happened_and_where_to_read_on():
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE))
    for name, rule in alerts().items():
        annotations = rule["annotations"]
        assert set(annotations) == {"summary", "description", "page"}, name
        assert f"`{name}`" in sections[annotations["page"]], f"the section does not speak of {name}"
        assert rule["labels"]["severity"] in ("critical", "warning"), name


# ---- names ----


def test_prometheus_takes_every_query(tmp_path):
    records = [{"record": f"query:{i}", "expr": expression} for i, expression in enumerate(expressions().values())]
    rules = tmp_path / "queries.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": records}]}), encoding="utf-8")
    checked = promtool("check", "rules", rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_queries_use_exported_names_and_labels_alone(metrics):
    for title, expression in expressions().items():
        selectors = re.findall(r"(shoal_\w+)(?:\{([^}]*)\})?", expression)
        assert selectors, title
        for name, matchers in selectors:
            base = name if name in metrics else SUFFIX.sub("", name)
            assert base in metrics, f"{title}: {name} is not exported"
            assert base == name or metrics[base][0] == "histogram", f"{title}: {base} is no histogram"
            labels = {matcher.split("=")[0].strip().rstrip("!") for matcher in matchers.split(",") if matcher}
            assert labels <= SCRAPED | {metrics[base][1]}, f"{title}: {name} has no labels {labels}"
        for labels in re.findall(r"\b(?:by|on|ignoring|without) \(([^)]*)\)", expression):
            bases = {name if name in metrics else SUFFIX.sub("", name) for name, _ in selectors}
            known = SCRAPED | {metrics[base][1] for base in bases}
            assert set(re.split(r", *", labels)) <= known, f"{title}: {labels}"


def test_counters_are_shown_as_rates_and_gauges_as_they_are(metrics):
    for title, expression in expressions().items():
        for name in re.findall(r"shoal_\w+", expression):
            base = name if name in metrics else SUFFIX.sub("", name)
            is_rate = re.search(rf"(rate|increase)\({name}", expression) is not None
            assert is_rate == (metrics[base][0] != "gauge"), f"{title}: {name} is a {metrics[base][0]}"


def test_every_metric_is_on_the_dashboard_or_in_an_alert(metrics):
    used = set(re.findall(r"shoal_\w+", " ".join(expressions().values())))
    used |= {SUFFIX.sub("", name) for name in used}
    # The version is for tables; the others say in another unit, or of fewer cases, what is shown.
    left_out = {
        "shoal_build_info", "shoal_log_events_left_out_total", "shoal_scheduler_map_epoch",
        "shoal_server_contributions_total", "shoal_server_chunks_reduced_total", "shoal_server_ops_total",
        "shoal_server_groups_failed_total", "shoal_server_open_groups",
    }  # fmt: skip
    assert set(metrics) - used == left_out


# ---- dashboard ----


def test_panels_have_words_units_and_places_of_their_own():
    taken = set()
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        place = panel["gridPos"]
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    listed = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in listed}) == len(listed)


# ---- the chart ----


def of_kind(objects: list[dict], kind: str) -> dict:
    (only,) = [item for item in objects if item["kind"] == kind]
    return only


def test_nothing_is_made_that_the_cluster_may_not_know(helm: Helm):
    objects = helm.render()
    assert not {item["kind"] for item in objects} & {"PodMonitor", "PrometheusRule"}
    assert not [item for item in objects if item["metadata"]["name"].endswith("-dashboard")]


def test_what_is_asked_for_has_the_files_and_ones_own_labels(helm: Helm):
    values = {part: {"enabled": True, "labels": {"release": "monitoring"}} for part in ALL["monitoring"]}
    objects = helm.render(ALL | {"monitoring": values})
    rules = of_kind(objects, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    (dashboard,) = [item for item in objects if item["metadata"]["name"] == f"{RELEASE}-shoal-dashboard"]
    assert json.loads(dashboard["data"]["shoal.json"]) == json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    for item in (rules, dashboard, of_kind(objects, "PodMonitor")):
        assert item["metadata"]["labels"]["release"] == "monitoring"


def test_the_monitor_selects_schedulers_and_servers_and_keeps_the_name_of_the_job(helm: Helm):
    objects = helm.render(ALL)
    spec = of_kind(objects, "PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True and endpoint["path"] == "/metrics"
    (expression,) = spec["selector"]["matchExpressions"]
    workloads = [item for item in objects if item["kind"] == "StatefulSet"]
    assert len(workloads) == 2
    for workload in workloads:
        template = workload["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert labels[expression["key"]] in expression["values"] and expression["operator"] == "In"
        ports = [port["name"] for container in template["spec"]["containers"] for port in container["ports"]]
        assert endpoint["port"] in ports


@pytest.mark.parametrize("interval", ["15", "0s", "often"])
def test_an_interval_that_is_none_is_refused(helm: Helm, interval: str):
    assert "interval" in helm.refuse({"monitoring": {"podMonitor": {"interval": interval}}})


def test_the_page_for_operators_lists_the_alerts():
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Shoal\w+)` \|", page, re.MULTILINE) == list(alerts())
