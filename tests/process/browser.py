"""A headless Chromium, as Debian packages it, for the scheduler's page."""

from selenium import webdriver


def start_browser(width: int, height: int) -> webdriver.Chrome:
    """The caller quits it. Its console is kept for get_log("browser")."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", f"window-size={width},{height}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
