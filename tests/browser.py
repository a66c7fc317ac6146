"""A real browser for tests: Debian's chromium, without a window and without a network."""

import shutil
import time

import pytest
from selenium import webdriver

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def in_a_browser(test):
    """Mark a test that needs the browser."""
    reason = "chromium and chromedriver are not installed"
    test = pytest.mark.skipif(not (BROWSER and DRIVER), reason=reason)(test)
    # Selenium leaves sockets to the garbage collector.
    for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
        test = pytest.mark.filterwarnings(f"ignore::{warning}")(test)
    return test


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    home = tmp_path_factory.mktemp("browser")
    fixed = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage")
    for argument in (*fixed, f"user-data-dir={home}"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    yield driver
    driver.quit()


def emulate(browser, width, mode):
    """Show pages this wide, to a reader who likes light or dark ones."""
    feature = {"name": "prefers-color-scheme", "value": mode}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def open_page(browser, address):
    """Open a page and wait for the whole of it: the driver may answer while it is still read."""
    browser.get(address)
    wait_for(browser, f"return location.href == '{address}' && document.readyState == 'complete'")


def wait_for(browser, script):
    end = time.monotonic() + 60.0
    while not browser.execute_script(script):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)
