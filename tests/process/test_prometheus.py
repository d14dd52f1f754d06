"""A real Prometheus scrapes a scheduler and a server: the dashboard's queries and the alerts work on what it has."""

import functools
import json
import pathlib
import re
import urllib.parse
import urllib.request

import yaml

from hosts.cluster import Cluster, free_ports
from hosts.node import LOOPBACK
from job_runs import digests, let_go_on, wait_for_line_of_all
from monitoring import RULES, dashboard_queries, tool

# They show what happens, and nothing while nothing does.
QUIET = {"Events", "Refusals"}


def start_prometheus(cluster: Cluster, folder: pathlib.Path, targets: list[str]) -> str:
    """Its address. The configuration is what docs/operating.md recommends, but for a short interval."""
    (folder / "rules.yaml").write_text(RULES.read_text(encoding="utf-8"), encoding="utf-8")
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {"job_name": "shoal", "honor_labels": True, "static_configs": [{"targets": targets}]},
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    (port,) = free_ports(1)
    address = f"{LOOPBACK}:{port}"
    prometheus = cluster.start(
        [
            tool("prometheus"),
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
        ]
    )
    prometheus.wait_for_line("Server is ready to receive web requests")
    return address


def ask(address: str, path: str, **parameters: str) -> dict:
    url = f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def query(address: str, expression: str) -> list[dict]:
    return ask(address, "query", query=expression)["result"]


def firing(address: str) -> list[dict]:
    return [alert for alert in ask(address, "alerts")["alerts"] if alert["state"] == "firing"]


def test_the_dashboard_shows_a_job_that_runs_and_no_alert_fires(cluster: Cluster, tmp_path):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0").http_address()
    server = cluster.start_server("alpha", "--http", f"{LOOPBACK}:0").http_address()
    prometheus = start_prometheus(cluster, tmp_path, [scheduler, server])
    # Rates are of a job that Prometheus saw before: counters begin when all ranks have been heard.
    ranks = cluster.start_ranks(2, "--hold", "--rounds", "3")
    wait_for_line_of_all(ranks, "^round 0 done$")
    cluster.wait_until(lambda: query(prometheus, 'shoal_job_ops_total{job="test"} > 0'), "the ops are scraped")
    let_go_on(ranks)
    wait_for_line_of_all(ranks, "^round 1 done$")
    cluster.wait_until(lambda: query(prometheus, 'rate(shoal_job_ops_total{job="test"}[10s]) > 0'), "there is a rate")
    cluster.wait_until(
        lambda: query(prometheus, "rate(shoal_scheduler_save_seconds_count[10s]) >= 0"), "saves are scraped"
    )
    for title, expression in dashboard_queries("10s").items():
        if title.rsplit(" ", 1)[0] in QUIET:
            query(prometheus, expression)
            continue
        # What a rate is made of may not have been scraped twice yet.
        result = cluster.wait_until(functools.partial(query, prometheus, expression), f"{title} has a result")
        if "job" in re.findall(r"\w+", title.lower()) or title.startswith("Time of an all-reduce"):
            assert {sample["metric"].get("job") for sample in result} <= {"test", None}, title
    rules = [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 5 and {rule["health"] for rule in rules} <= {"ok", "unknown"}
    let_go_on(ranks, rounds=2)
    assert len(digests(ranks)) == 1
    assert firing(prometheus) == []


def test_a_lost_server_fires_the_alert(cluster: Cluster, tmp_path):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=1000).http_address()
    doomed = cluster.start_server("alpha")
    prometheus = start_prometheus(cluster, tmp_path, [scheduler])
    cluster.wait_until(lambda: query(prometheus, "shoal_scheduler_leads == 1"), "the scheduler is scraped")
    cluster.wait_until(
        lambda: query(prometheus, 'shoal_scheduler_servers{state="live"} == 1'), "the number of servers is scraped"
    )
    doomed.process.kill()

    (alert,) = cluster.wait_until(lambda: firing(prometheus), "an alert fires")
    assert alert["labels"]["alertname"] == "ShoalServerLost"
    assert "servers that are lost now: 1." in alert["annotations"]["description"]
