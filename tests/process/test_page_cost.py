"""What the scheduler's page costs and how soon it is there. These tests want the machine for themselves."""

import concurrent.futures
import json
import os
import pathlib
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By

from browser import (  # noqa: F401
    HOSTILE, browser, complaints, open_page, page_of, painted_after_ms, text_of, wait_until
)  # fmt: skip
from hosts.cluster import SERVER_LISTENS, Cluster
from hosts.node import LOOPBACK
from hosts.process import PATIENCE_S as A_WHILE_S, TIME_FACTOR, Process
from held_job import start_held_job

# What the page is made for (64 servers, 20 jobs); with a sanitizer's programs less.
SERVERS, JOBS = (64, 20) if TIME_FACTOR == 1 else (8, 4)


def processor_time_s(process: Process) -> float:
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_it_is_there_within_a_second_and_asks_for_nothing_from_elsewhere(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0")
    address = page_of(scheduler)
    cluster.start_server("alpha")
    open_page(browser, address)
    assert painted_after_ms(browser) < 1000
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded and all(name.startswith(address) or name.startswith("data:") for name in loaded), loaded
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    with urllib.request.urlopen(address + "cluster.json", timeout=10) as answer:
        assert json.load(answer)["servers"][0]["name"] == "alpha"


def test_many_viewers_at_once_cost_the_scheduler_little(cluster: Cluster):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0")
    address = page_of(scheduler)
    cluster.start_server("alpha")
    start_held_job(cluster, "gpt")

    def look(_viewer: int) -> int:
        """What one does in five seconds: how many times it got the cluster."""
        seen = 0
        until = time.monotonic() + 5
        while time.monotonic() < until:
            with urllib.request.urlopen(address + "cluster.json", timeout=10) as answer:
                seen += json.load(answer)["servers"][0]["name"] == "alpha"
            time.sleep(2)
        return seen

    look(0)
    before, started = processor_time_s(scheduler), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(20) as viewers:
        seen = list(viewers.map(look, range(20)))
    share = (processor_time_s(scheduler) - before) / (time.monotonic() - started)
    assert min(seen) >= 2
    assert share < 0.1, f"{share:.2f} of a core"
    with urllib.request.urlopen(address + "healthz", timeout=1) as answer:
        assert answer.read() == b"ok\n"


def test_a_large_cluster_is_there_within_a_second_and_costs_little(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0")
    servers = [cluster.launch_server("--name", f"s{i}", "--slot-memory", "8M") for i in range(SERVERS)]
    for server in servers:
        server.wait_for_line(SERVER_LISTENS, 2 * A_WHILE_S)
    # Two ranks, of which one never comes: the jobs stay as long as the test looks.
    names = [f"job-{i}." for i in range(JOBS)]
    for name in names:
        cluster.start_rank(0, 2, "--job", name)
    open_page(browser, page_of(scheduler))
    painted_ms = painted_after_ms(browser)
    wait_until(lambda: all(name in text_of(browser, "jobs") for name in names), browser, "all jobs are shown")
    wait_until(lambda: f"s{SERVERS - 1}" in text_of(browser, "servers"), browser, "so are all servers")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#servers tbody tr")) == SERVERS
    assert len(browser.find_elements(By.CSS_SELECTOR, "#jobs tbody tr")) == JOBS
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.title.startswith("Shoal ")

    def share_of_a_core() -> float:
        """What the scheduler takes in six seconds."""
        before, started = processor_time_s(scheduler), time.monotonic()
        time.sleep(6)
        return (processor_time_s(scheduler) - before) / (time.monotonic() - started)

    looked_at = share_of_a_core()
    open_page(browser, page_of(scheduler))
    again_ms = painted_after_ms(browser)
    browser.get("about:blank")
    alone = share_of_a_core()
    print(f"painted after {painted_ms:.0f} and {again_ms:.0f} ms")
    print(f"{looked_at:.3f} of a core, {alone:.3f} if nobody looks")
    assert max(painted_ms, again_ms) < 1000, "the first time, and with everything there from the start"
    assert looked_at - alone < 0.1
    assert complaints(browser) == []
