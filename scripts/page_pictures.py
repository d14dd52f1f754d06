#!/usr/bin/env python3
"""Makes the pictures of the scheduler's page in docs/pictures, of a real cluster on this machine: two jobs, one with a
slow rank, and a server that was lost.

    build/venv/bin/python scripts/page_pictures.py      (after `make test`; two and a half minutes)
"""

import pathlib
import re
import sys
import time

from selenium import webdriver

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/process")]

from browser import start_browser  # noqa: E402
from hosts.cluster import Cluster, program
from hosts.node import LOOPBACK

PICTURES = ROOT / "docs" / "pictures"
WATCHED_S = 130  # so that the curves are full
WIDTH, HEIGHT = 1280, 1080


def start_job(cluster: Cluster, name: str, size: str, pauses_us: list[int]) -> None:
    """A rank for each pause, which it makes before each all-reduce."""
    for rank, pause_us in enumerate(pauses_us):
        command = [program("shoal-perf"), "--scheduler", cluster.scheduler_address, "--job", name, "--rank", str(rank)]
        command += ["--world-size", str(len(pauses_us)), "--node-reduce", "off", "-n", "1000000", "-c", "0"]
        cluster.start([*command, "-b", size, "--pause", str(pause_us)])


def start_browser_in(scheme: str) -> webdriver.Chrome:
    browser = start_browser(WIDTH, HEIGHT)
    emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
    return browser


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    cluster = Cluster()
    browsers = {}
    try:
        scheduler = cluster.start_scheduler("--http", f"{LOOPBACK}:0", lease_ttl_ms=3000)
        line = scheduler.wait_for_line(r"page, metrics and health on (http://\S+)$")
        servers = [cluster.start_server(f"server-{number}") for number in range(4)]
        start_job(cluster, "gpt-7b", "1M", [40_000, 40_000, 70_000, 40_000])
        start_job(cluster, "vision", "256K", [90_000, 90_000])
        for scheme in ("light", "dark"):
            browsers[scheme] = start_browser_in(scheme)
            browsers[scheme].get(line.group(1) + "/")
        time.sleep(WATCHED_S / 2)
        servers[-1].process.kill()
        time.sleep(WATCHED_S / 2)
        for scheme, browser in browsers.items():
            for shown in ("server-lost", "late-compute"):
                assert re.search(shown, browser.page_source), f"the page does not show {shown}"
            browser.save_screenshot(str(PICTURES / f"page_{scheme}.png"))
            print(f"{PICTURES / f'page_{scheme}.png'}")
    finally:
        for browser in browsers.values():
            browser.quit()
        cluster.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
