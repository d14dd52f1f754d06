"""The scheduler's page in a headless Chromium, as Debian packages that."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from hosts.process import Process

HOSTILE = "<img/src=x/onerror=document.title=1>"
PAINTED = "return performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"
PATIENCE_S = 40.0
ADDRESS = re.compile(r"page, metrics and health on (http://\S+)$")


def start_browser(width: int, height: int) -> webdriver.Chrome:
    """The caller quits it. Its console is kept for get_log("browser")."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", f"window-size={width},{height}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    driver = start_browser(1280, 1000)
    yield driver
    driver.quit()


def page_of(scheduler: Process) -> str:
    return scheduler.wait_for_line(ADDRESS.pattern).group(1) + "/"


def text_of(browser: webdriver.Chrome, element: str) -> str:
    return browser.find_element(By.ID, element).text


def wait_until(
    condition: Callable[[], bool], browser: webdriver.Chrome, what: str, patience_s: float = PATIENCE_S
) -> None:
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, f"{what}:\n{browser.find_element(By.TAG_NAME, 'body').text}"
        time.sleep(0.1)


def open_page(browser: webdriver.Chrome, address: str) -> None:
    browser.get(address)
    wait_until(lambda: text_of(browser, "news") == "Live", browser, "the page has news")


def painted_after_ms(browser: webdriver.Chrome) -> float:
    wait_until(lambda: browser.execute_script(PAINTED) != [], browser, "the browser tells when it painted")
    return browser.execute_script(PAINTED)[0]


def complaints(browser: webdriver.Chrome) -> list[str]:
    """What the browser's console says, but for requests that a scheduler that is away did not answer."""
    return [entry["message"] for entry in browser.get_log("browser") if "cluster.json" not in entry["message"]]
