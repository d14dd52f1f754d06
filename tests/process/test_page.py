"""The page of the scheduler's --http, in a real browser: what it shows, that it goes on, and that names are text."""

import json
import pathlib
import re
import signal
import urllib.request

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import HOSTILE, PATIENCE_S, browser, complaints, open_page, page_of, text_of, wait_until  # noqa: F401
from hosts.cluster import Cluster, program
from hosts.node import LOOPBACK
from held_job import start_held_job
from job_runs import let_go_on
from slow_job import NAMED_WITHIN_S, RANKS, SHORT_LEASE_MS, SLOW, start_slow_job

KEPT_SAMPLES = 60  # of a curve, by page.js
# Of every text that is seen, the least contrast with what is behind it (WCAG 2.2, "contrast ratio"), and the text.
LEAST_CONTRAST = """
const channels = (color) => color.match(/[0-9.]+/g).map(Number);
const light = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const color = channels(getComputedStyle(node).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
let least = [21, ""];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
  const [a, b] = [luminance(channels(getComputedStyle(node).color)), luminance(behind(node))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < least[0]) least = [contrast, texts.currentNode.data];
}
return least;
"""
def test_an_empty_cluster_says_so(cluster: Cluster, browser: webdriver.Chrome):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    assert "No job has joined." in text_of(browser, "jobs-title") + browser.find_element(By.TAG_NAME, "main").text
    assert "Start one with shoal-server" in browser.find_element(By.TAG_NAME, "main").text
    assert complaints(browser) == []


def test_it_shows_servers_jobs_and_events_as_they_change(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=2000)
    servers = {name: cluster.start_server(name) for name in ("alpha", "beta")}
    ranks = start_held_job(cluster, "gpt", "--min-servers", "2")
    open_page(browser, page_of(scheduler))
    assert cluster.servers().keys() == {"alpha", "beta"}
    cluster.start_rank(0, 2, "--job", "doomed")
    wait_until(lambda: "doomed" in text_of(browser, "jobs"), browser, "a job that waits is shown")
    assert cluster.call_shoalctl("abort", "doomed", "--reason", HOSTILE).returncode == 0
    wait_until(lambda: HOSTILE in text_of(browser, "events"), browser, "a reason is text")
    assert browser.find_elements(By.TAG_NAME, "img") == []
    wait_until(lambda: "4 of 4" in text_of(browser, "jobs"), browser, "the job's ranks are counted")
    assert "running" in text_of(browser, "jobs") and "group-opened" in text_of(browser, "events")
    let_go_on(ranks)

    servers["beta"].send(signal.SIGKILL)
    lost = re.compile("lost.*no heartbeat")
    wait_until(lambda: lost.search(text_of(browser, "servers")) is not None, browser, "the lost server is told")
    wait_until(lambda: "server-lost" in text_of(browser, "events"), browser, "so is the event")
    wait_until(lambda: re.search(r"Servers lost\s+1", text_of(browser, "overview")), browser, "and counted")
    saved = re.compile(r"Save of the state, [\d.]+ (s|min) ago\s+[\d.]+ ms")
    assert saved.search(text_of(browser, "overview")), text_of(browser, "overview")
    names_of_columns = "return [...document.querySelectorAll('#jobs thead th')].map((name) => name.textContent)"
    columns = browser.execute_script(names_of_columns)
    assert columns[3:7] == ["All-reduces/s", "Pushed/s", "Mean time", "p99"], "rates are of all-reduces, not of steps"
    assert browser.title.startswith("Shoal ")
    assert complaints(browser) == []


def curve_of(browser: webdriver.Chrome, plot: str) -> list[tuple[float, float]]:
    """The points of a plot's line, in the units of its picture: 600 wide, and 120 from top to bottom."""
    script = "return document.querySelector(arguments[0])?.getAttribute('points') ?? ''"
    points = browser.execute_script(script, f"#{plot} polyline").split()
    return [tuple(map(float, point.split(","))) for point in points]


def test_a_slow_rank_is_told_in_words_and_the_plots_are_of_what_goes_on(cluster: Cluster, browser: webdriver.Chrome):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=SHORT_LEASE_MS)
    for name in ("alpha", "beta"):
        cluster.start_server(name)
    ranks = start_slow_job(cluster)
    open_page(browser, page_of(scheduler))
    wait_until(lambda: f"{RANKS} of {RANKS}" in text_of(browser, "jobs"), browser, "the job's ranks are counted")
    wait = r"others wait [1-9]\d* %, [1-9]\d*\.\d ms an op \(([a-z-]+)\), for [\d.]+ (?:s|min)"
    named = re.compile(rf"rank (\d+) on (\S+) is slow: {wait}")
    node = cluster.shoalctl("job", "perf")[0]["ranks"][SLOW]["node"]

    def is_told() -> bool:
        return named.findall(text_of(browser, "jobs")) == [(str(SLOW), node, "late-compute")]

    wait_until(is_told, browser, "the slow rank is named, and no other", NAMED_WITHIN_S + PATIENCE_S)
    wait_until(lambda: "rank-slow" in text_of(browser, "events"), browser, "so is the event")

    before = min(len(curve_of(browser, "plot-in")), KEPT_SAMPLES - 3)
    wait_until(lambda: len(curve_of(browser, "plot-in")) >= before + 3, browser, "the curve grows with each look")
    for plot in ("plot-in", "plot-ops"):
        curve = curve_of(browser, plot)
        across = [x for x, _ in curve]
        assert across == sorted(set(across)) and across[-1] == 600, f"{plot}: from left to right, up to now: {curve}"
        assert min(y for _, y in curve) == 4, f"{plot}: the most is at the top: {curve}"
        assert curve[-1][1] < 118, f"{plot}: the job goes on: {curve}"
    rate = r"[1-9]\d*(\.\d)? [KMG]iB/s"
    assert re.fullmatch(rate, text_of(browser, "plot-in-now")), text_of(browser, "plot-in-now")
    label = browser.find_element(By.ID, "plot-in").get_attribute("aria-label")
    assert re.fullmatch(rf"Gradients into the servers: {rate} now, at most {rate} in two minutes", label), label

    for rank in ranks:
        rank.end_group()
    wait_until(lambda: text_of(browser, "plot-in-now") == "0 B/s", browser, "nothing goes into the servers any more")
    assert curve_of(browser, "plot-in")[-1][1] == 118, "the curve is at the bottom"
    assert complaints(browser) == []


def text_shown(browser: webdriver.Chrome, document: dict) -> str:
    """What the page has for a document like that of cluster.json, until it looks again."""
    show = "show(arguments[0]); return document.body.innerText"
    return browser.execute_script(show, document)


def first_column_shown(
    browser: webdriver.Chrome, document: dict, table: str, cells: str = "th"
) -> tuple[list[str], str]:
    """What the page has for a document: these cells of a table's rows, and all text."""
    show = """
      show(arguments[0]);
      const cells = [...document.querySelectorAll(`#${arguments[1]} tbody ${arguments[2]}`)];
      return [cells.map((cell) => cell.textContent), document.body.innerText];"""
    return tuple(browser.execute_script(show, document, table, cells))


def test_it_shows_what_a_small_cluster_does_not_do_by_itself(cluster: Cluster, browser: webdriver.Chrome):
    address = page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0"))
    for name in ("alpha", "beta"):
        cluster.start_server(name)
    open_page(browser, address)
    with urllib.request.urlopen(address + "cluster.json", timeout=10) as answer:
        document = json.load(answer)
    shown = text_shown(browser, document)
    for word in ("colocated", "Failed saves", " leads", "not shown"):
        assert word not in shown, "only where there is some"
    now = int(document["cluster"]["now_unix_ms"])
    document["cluster"] |= {"leader": "10.0.0.7:7070", "servers_colocated": 3, "saves_failed": "2"}
    assert "Failed saves" not in text_shown(browser, document), "they have succeeded since"
    document["cluster"] |= {"save_failure": "No space left", "saves_fail_since_unix_ms": str(now - 12_000)}
    refused = {"name": "beta", "node": "node-b", "reason": "its name is taken", "newest_age_ms": "1500"}
    document["cluster"] |= {"refused_servers": [refused], "open_to_network": "everybody can end it"}
    slow = {"name": "alpha", "node": "node-a", "waited_share": 0.4, "since_unix_ms": str(now - 20_000)}
    ways = [slow | {"cause": "slow-server"}, slow | {"cause": "slow-way", "late_rank": 3}]
    totals = dict.fromkeys(("live", "ops", "failed", "pushed", "pulled", "op_time_ns", "groups", "age_ms"), 1)
    job = {"job_id": "1", "name": "gpt", "state": "running", "world_size": 1, "slow_servers": ways}
    document["jobs"] = [{"job": job, "totals": totals, "slow_rank_nodes": [], "trouble": []}]
    document["servers"][1] |= {"name": "gone", "state": "lost", "last_heartbeat_age_ms": "3599000"}
    shown = text_shown(browser, document)
    for words in (
        r"Servers colocated\s+3", r"Failed saves, for 12.0 s\s+2",
        "The state has not been saved for 12.0 s, so nothing new begins: No space left",
        r"No certificates \(--insecure-network\): everybody can end it",
        "Server beta on node-b was refused 1.5 s ago: its name is taken", "the scheduler at 10.0.0.7:7070 leads",
        r"server alpha on node-a is slow: ranks wait 40 % \(slow-server\), for 20.0 s",
        r"the way from rank 3 to server alpha on node-a is slow: ranks wait 40 % \(slow-way\), for 20.0 s",
        r"gone\s+lost",
    ):  # fmt: skip
        assert re.search(words, shown), f"{words} is not in:\n{shown}"
    document["servers"][1]["last_heartbeat_age_ms"] = "3601000"
    shown = text_shown(browser, document)
    assert re.search(r"alpha\s+live", shown) and not re.search(r"gone\s+lost", shown), shown
    assert "1 server gone for more than an hour not shown" in shown
    document["servers"] = document["servers"][1:]
    assert "No server has registered" not in text_shown(browser, document), "there was one"
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [1500, 1200, 800, 400])
def test_no_tile_is_alone_in_its_row_and_the_page_stays_short(cluster: Cluster, browser: webdriver.Chrome, width: int):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    cluster.start_server("alpha")
    wait_until(lambda: "alpha" in text_of(browser, "servers"), browser, "the server is shown")
    before = browser.get_window_size()
    browser.set_window_size(width, 900)
    try:
        document = browser.execute_async_script("fetch('cluster.json').then((it) => it.json()).then(arguments[0])")
        document["cluster"] |= {"servers_colocated": 3}
        event = {"at_unix_ms": "0", "kind": "group-moved", "subject": "job gpt", "reason": "a server was lost " * 12}
        document["events"] = [event | {"sequence": str(number)} for number in range(1, 101)]
        tops = """
          show(arguments[0]);
          return [[...document.querySelectorAll("#overview > div")].map((tile) => tile.offsetTop),
                  document.documentElement.scrollHeight];"""
        rows, height = browser.execute_script(tops, document)
    finally:
        browser.set_window_size(before["width"], before["height"])
    assert len(rows) == 8
    assert all(rows.count(row) == rows.count(rows[0]) for row in rows), f"{rows}"
    assert height < 2500, "events are many, and scroll in a box of their own"
    assert complaints(browser) == []


def test_servers_that_are_there_come_first(cluster: Cluster, browser: webdriver.Chrome):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    cluster.start_server("alpha")
    wait_until(lambda: "alpha" in text_of(browser, "servers"), browser, "the server is shown")
    document = browser.execute_async_script("fetch('cluster.json').then((it) => it.json()).then(arguments[0])")
    [live] = document["servers"]
    gone = live | {"server_id": "1", "name": "gone", "state": "left", "last_heartbeat_age_ms": "60000"}
    document["servers"] = [gone, live]
    names, _ = first_column_shown(browser, document, "servers")
    assert names == ["alpha", "gone"]


def test_where_nobody_leads_the_cards_say_that_nothing_is_known(cluster: Cluster, browser: webdriver.Chrome):
    command = [program("shoal-scheduler"), "--listen", f"{LOOPBACK}:0", "--http", f"{LOOPBACK}:0"]
    scheduler = cluster.start([*command, "--store", f"etcd://{LOOPBACK}:1"])
    browser.get(page_of(scheduler))
    wait_until(lambda: "most members of its etcd" in text_of(browser, "news"), browser, "what to do is said")
    assert "try again" not in text_of(browser, "news"), "the page does so by itself"
    assert browser.find_element(By.TAG_NAME, "main").text.count("no scheduler has answered yet") == 3


def test_jobs_with_live_ranks_come_first_and_old_ones_are_not_shown(cluster: Cluster, browser: webdriver.Chrome):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    wait_until(lambda: text_of(browser, "news") == "Live", browser, "the page has its first look")
    document = browser.execute_async_script("fetch('cluster.json').then((it) => it.json()).then(arguments[0])")

    def job(number: int, name: str, live: int, newest_age_ms: int) -> dict:
        totals = dict.fromkeys(("ops", "failed", "pushed", "pulled", "op_time_ns", "groups", "age_ms"), 0)
        totals |= {"live": live, "newest_age_ms": newest_age_ms}
        state = "running" if live else "ended"
        job = {"job_id": str(number), "name": name, "state": state, "world_size": 1}
        return {"job": job, "totals": totals, "slow_rank_nodes": [], "trouble": []}

    document["jobs"] = [
        job(1, "old", 0, 3_601_000),
        job(2, "earlier", 0, 3_000_000),
        job(3, "just-now", 0, 1000),
        job(4, "open", 1, 900),
    ]
    gone = "1 job gone for more than an hour not shown (shoalctl jobs --all shows them)"
    names, text = first_column_shown(browser, document, "jobs")
    assert names == ["open", "just-now", "earlier"] and gone in text
    document["jobs"] = document["jobs"][2:]
    names, text = first_column_shown(browser, document, "jobs")
    assert names == ["open", "just-now"] and gone not in text
    assert complaints(browser) == []


def test_events_of_one_number_are_all_shown_and_go_as_they_came(cluster: Cluster, browser: webdriver.Chrome):
    """A save that failed has no number of its own: with each failure there is another event of the last number."""
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    wait_until(lambda: text_of(browser, "news") == "Live", browser, "the page has its first look")
    document = browser.execute_async_script("fetch('cluster.json').then((it) => it.json()).then(arguments[0])")

    def shown(events: list[tuple[int, str]]) -> list[str]:
        document["events"] = [
            {"sequence": str(number), "at_unix_ms": "0", "kind": "save-failed", "subject": what, "reason": ""}
            for number, what in events
        ]
        return first_column_shown(browser, document, "events", "td:nth-child(3)")[0]

    events = [(6, "a"), (7, "b")]
    assert shown(events) == ["b", "a"]
    for number, what in ((7, "c"), (7, "d"), (8, "e")):
        events.append((number, what))
        assert shown(events) == [what for _, what in reversed(events)]
    assert shown(events[2:]) == ["e", "d", "c"]


def test_an_ended_job_says_when_something_was_last_heard_of_it(cluster: Cluster):
    address = page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=1000))
    cluster.start_server("alpha")
    ranks = cluster.start_ranks(2)
    for rank in ranks:
        assert rank.wait() == 0

    def newest_age_ms() -> int:
        with urllib.request.urlopen(address + "cluster.json", timeout=10) as answer:
            [job] = json.load(answer)["jobs"]
        return 0 if job["job"]["state"] != "ended" else job["totals"]["newest_age_ms"]

    cluster.wait_until(lambda: newest_age_ms() > 2000, "the ended job's age grows")


def test_a_selection_lasts_from_look_to_look(cluster: Cluster, browser: webdriver.Chrome):
    open_page(browser, page_of(cluster.start_scheduler("--http", f"{LOOPBACK}:0")))
    cluster.start_server("alpha")
    wait_until(lambda: "server-registered" in text_of(browser, "events"), browser, "there is an event")
    select = """
      const cells = [...document.querySelectorAll("#events tbody td.kind")];
      document.getSelection().selectAllChildren(cells.find((cell) => cell.textContent === "server-registered"));
      window.looks = 0;
      const shown = show;
      show = (document) => { shown(document); window.looks += 1; };"""
    browser.execute_script(select)
    cluster.start_server("beta")
    wait_until(lambda: "beta" in text_of(browser, "events"), browser, "there is another event above it")
    wait_until(lambda: browser.execute_script("return window.looks") >= 2, browser, "the page has looked again")
    assert browser.execute_script("return document.getSelection().toString()").strip() == "server-registered"
    registered = "return [...document.querySelectorAll('#events tbody tr')].map((row) => row.innerText)"
    rows = [row for row in browser.execute_script(registered) if "server-registered" in row]
    assert "beta" in rows[0] and "alpha" in rows[1], "the newest is the first"
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_in_dark(cluster: Cluster, browser: webdriver.Chrome, scheme: str):
    scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=1000)
    servers = [cluster.start_server(name) for name in ("alpha", "beta")]
    rank = cluster.start_rank(0, 2, "--job", "half")
    servers[0].send(signal.SIGKILL)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        open_page(browser, page_of(scheduler))
        wait_until(lambda: "lost" in text_of(browser, "servers"), browser, "a state in red is shown")
        wait_until(lambda: "joining" in text_of(browser, "jobs"), browser, "so is one in yellow")
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (int(ground[4:].split(",")[0]) < 128) == (scheme == "dark")
        contrast, text = browser.execute_script(LEAST_CONTRAST)
        assert contrast >= 4.5, f"{text!r} has a contrast of {contrast:.1f}"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        rank.end_group()
