"""The page of ``mixfree report`` in a real browser: Debian's headless chromium."""

import pytest

from mixfree.streams.report.page import write_page
from tests.browser import browser, emulate, in_a_browser, open_page, wait_for
from tests.streams.test_page import SECTIONS, evil_table, fitted

pytestmark = pytest.mark.slow

__all__ = ["browser"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    write_page(fitted(folder, evil_table()), path)
    return path.as_uri()


def opened(browser, address, width, mode):
    """Open the page and wait until its figures have the colours of the mode."""
    emulate(browser, width, mode)
    open_page(browser, address)
    wait_for(browser, f"return document.documentElement.dataset.painted === '{mode}'")
    wait_for(browser, "return document.querySelectorAll('figure > div').length > 0")


@in_a_browser
@pytest.mark.parametrize(("width", "mode"), [(1200, "light"), (400, "dark")])
def test_the_page_opens_without_an_error(browser, address, width, mode):
    """Catches a script broken by a name, a missing library, or a figure that is too wide."""
    opened(browser, address, width, mode)
    wrong = [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
    assert wrong == []
    assert browser.execute_script("return window.hacked") is None
    ids = browser.execute_script("return [...document.querySelectorAll('section')].map(s => s.id)")
    assert set(ids) == set(SECTIONS)
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect())"
        ".map(r => [r.left, r.right, r.height])"
    )
    assert len(drawn) == 4
    assert all(0 <= left < right <= width and height > 200 for left, right, height in drawn)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    background = "return getComputedStyle(document.body).backgroundColor"
    dark = sum(map(int, browser.execute_script(background)[4:-1].split(","))) < 3 * 128
    assert dark == (mode == "dark")


@in_a_browser
def test_the_pictures_answer(browser, address):
    """Catches a figure that is a static image."""
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
