"""The page of the scheduler's --http, in a real browser: what it shows, that it goes on, and that names are text."""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import start_browser
from cluster import LOOPBACK, Cluster, Process
from held_job import start_held_job
from job_runs import let_go_on, wait_for_line_of_all

HOSTILE = "<img/src=x/onerror=document.title=1>"
PATIENCE_S = 40.0
ADDRESS = re.compile(r"page, metrics and health on (http://\S+)$")


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    driver = start_browser(1280, 1000)
    yield driver
    driver.quit()


def page_of(scheduler: Process) -> str:
    return scheduler.wait_for_line(ADDRESS.pattern).group(1) + "/"


def text_of(browser: webdriver.Chrome, element: str) -> str:
    return browser.find_element(By.ID, element).text


def wait_until(condition: Callable[[], bool], browser: webdriver.Chrome, what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"{what}:\n{browser.find_element(By.TAG_NAME, 'body').text}"
        time.sleep(0.1)


def open_page(browser: webdriver.Chrome, address: str) -> None:
    browser.get(address)
    wait_until(lambda: text_of(browser, "news") == "Live", browser, "the page has news")


def complaints(browser: webdriver.Chrome) -> list[str]:
    """What the browser's console says, but for requests that a scheduler that is away did not answer."""
    return [entry["message"] for entry in browser.get_log("browser") if "cluster.json" not in entry["message"]]


def test_an_empty_cluster_says_so(cluster: Cluster, browser: webdriver.Chrome):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    assert "No job has joined." in text_of(browser, "jobs-title") + browser.find_element(By.TAG_NAME, "main").text
    assert "Start one with shoal-server" in browser.find_element(By.TAG_NAME, "main").text
    assert complaints(browser) == []


def test_it_shows_servers_jobs_and_events_as_they_change(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=2000)
    servers = {name: cluster.start_server(name) for name in ("alpha", HOSTILE)}
    ranks = start_held_job(cluster, "gpt", "--min-servers", "2")
    wait_for_line_of_all(ranks, "^round 0 done$")
    open_page(browser, page_of(scheduler))
    assert cluster.servers().keys() == {"alpha", HOSTILE}
    assert HOSTILE in text_of(browser, "servers"), "a name is text"
    assert browser.find_elements(By.TAG_NAME, "img") == []
    wait_until(lambda: "4 of 4" in text_of(browser, "jobs"), browser, "the job's ranks are counted")
    assert "running" in text_of(browser, "jobs") and "group-opened" in text_of(browser, "events")
    let_go_on(ranks)

    servers[HOSTILE].send(signal.SIGKILL)
    lost = re.compile("lost.*no heartbeat")
    wait_until(lambda: lost.search(text_of(browser, "servers")) is not None, browser, "the lost server is told")
    wait_until(lambda: "server-lost" in text_of(browser, "events"), browser, "so is the event")
    wait_until(lambda: re.search(r"Servers lost\s+1", text_of(browser, "overview")), browser, "and counted")
    assert browser.title.startswith("Shoal ")
    assert complaints(browser) == []


def test_it_goes_on_when_the_scheduler_is_back(cluster: Cluster, browser: webdriver.Chrome, tmp_path: pathlib.Path):
    options = ["--state-file", str(tmp_path / "state")]
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", *options)
    address = page_of(scheduler)
    cluster.start_server("alpha")
    open_page(browser, address)
    wait_until(lambda: "alpha" in text_of(browser, "servers"), browser, "the server is shown")
    scheduler.send(signal.SIGKILL)
    scheduler.wait()
    wait_until(lambda: text_of(browser, "news").startswith("No news: "), browser, "it says that it has no news")
    assert "alpha" in text_of(browser, "servers"), "what was known stays"
    http = address.removeprefix("http://").rstrip("/")
    cluster.start_scheduler("--http", http, *options, listen=cluster.scheduler_address)
    wait_until(lambda: text_of(browser, "news") == "Live", browser, "it has news again")


def test_a_keyboard_and_a_screen_reader_reach_everything(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0")
    cluster.start_server("alpha")
    open_page(browser, page_of(scheduler))
    reached = []
    for _ in range(4):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.switch_to.active_element.get_attribute("aria-labelledby"))
    assert {"jobs-title", "servers-title", "events-title"} <= set(reached), "tables that scroll take the focus"
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    for picture in browser.find_elements(By.CSS_SELECTOR, "[role=img]"):
        assert picture.get_attribute("aria-label")
    for table in ("servers", "events"):
        assert browser.find_elements(By.CSS_SELECTOR, f"#{table} th[scope=col]")
    assert browser.find_element(By.ID, "news").get_attribute("aria-live") == "polite"


def test_it_is_there_within_a_second_and_asks_for_nothing_from_elsewhere(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0")
    address = page_of(scheduler)
    cluster.start_server("alpha")
    open_page(browser, address)
    painted = "return performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"
    wait_until(lambda: browser.execute_script(painted) != [], browser, "the browser tells when it painted")
    assert browser.execute_script(painted)[0] < 1000
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

    def used_s() -> float:
        fields = pathlib.Path(f"/proc/{scheduler.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
    before, started = used_s(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(20) as viewers:
        seen = list(viewers.map(look, range(20)))
    share = (used_s() - before) / (time.monotonic() - started)
    assert min(seen) >= 2
    assert share < 0.1, f"{share:.2f} of a core"
    with urllib.request.urlopen(address + "healthz", timeout=1) as answer:
        assert answer.read() == b"ok\n"
