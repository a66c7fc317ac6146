"""The page of ``mixfree report`` in a real browser: Debian's chromium, without a window."""

import shutil
import time

import pytest
from selenium import webdriver

from mixfree.streams.page import write_page
from tests.streams.test_page import SECTIONS, evil_table, fitted

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(
        not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed"
    ),
    # Selenium leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    write_page(fitted(folder, evil_table()), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    home = tmp_path_factory.mktemp("browser")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={home}",
    ):
        options.add_argument(argument)
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


def opened(browser, address, width, mode):
    """Open the page and wait until its pictures have the colours of the mode."""
    feature = {"name": "prefers-color-scheme", "value": mode}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    wait_for(browser, f"return document.documentElement.dataset.painted === '{mode}'")
    wait_for(browser, "return document.querySelectorAll('figure > div').length > 0")


def wait_for(browser, script):
    end = time.monotonic() + 60.0
    while not browser.execute_script(script):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)


@pytest.mark.parametrize(("width", "mode"), [(1200, "light"), (400, "dark")])
def test_the_page_opens_without_an_error(browser, address, width, mode):
    """A script cut short by a name, a missing library or a picture too wide would show here."""
    opened(browser, address, width, mode)
    wrong = [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
    assert wrong == []
    assert browser.execute_script("return window.hacked") is None
    ids = browser.execute_script("return [...document.querySelectorAll('section')].map(s => s.id)")
    assert set(ids) == {*SECTIONS, "residuals"}
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect())"
        ".map(r => [r.left, r.right, r.height])"
    )
    assert len(drawn) == 6
    assert all(0 <= left < right <= width and height > 200 for left, right, height in drawn)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    background = "return getComputedStyle(document.body).backgroundColor"
    dark = sum(map(int, browser.execute_script(background)[4:-1].split(","))) < 3 * 128
    assert dark == (mode == "dark")


def test_the_pictures_answer(browser, address):
    """A picture that is only an image would not move."""
    opened(browser, address, 1200, "light")
    first = "const figure = Bokeh.documents[0].roots()[0]; "
    range_ = f"{first} return [figure.x_range.start, figure.x_range.end]"
    before = browser.execute_script(range_)
    canvas = browser.execute_script(
        "const r = document.querySelector('#predicted figure').getBoundingClientRect();"
        "window.scrollTo(0, r.top); "
        "const s = document.querySelector('#predicted figure').getBoundingClientRect();"
        "return [s.left + s.width / 2, s.top + 150]"
    )
    x, y = map(int, canvas)
    mouse = {"button": "left", "clickCount": 1, "y": y}
    for kind, at in (("mousePressed", x), ("mouseMoved", x - 200), ("mouseReleased", x - 200)):
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": at, **mouse})
    wait_for(browser, f"{first} return figure.x_range.start > {before[0]}")
    height = "return document.querySelector('details').getBoundingClientRect().height"
    closed = browser.execute_script(height)
    browser.find_element("css selector", "details summary").click()
    wait_for(browser, f"{height} > {closed} + 100")


def test_the_colours_follow_the_reader(browser, address):
    """Pictures painted once would stay dark on a light page."""
    opened(browser, address, 1200, "dark")
    colour = "return Bokeh.documents[0].roots()[0].below[0].major_label_text_color"
    dark = browser.execute_script(colour)
    light = {"name": "prefers-color-scheme", "value": "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [light]})
    wait_for(browser, "return document.documentElement.dataset.painted === 'light'")
    assert browser.execute_script(colour) != dark
