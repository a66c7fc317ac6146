"""The documentation site is built without a warning, and a reader finds everything in it."""

import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

from tests.browser import browser, emulate, in_a_browser, open_page, wait_for
from tests.public_names import MODULES

pytestmark = pytest.mark.slow

__all__ = ["browser"]
DOCS = Path(__file__).parent.parent / "docs"


TABLES = (
    "Squares\n\n| n | n² |\n|:--|--:|\n| 3 | 9 |\n\nCubes\n\n| n | sign | n³ |\n|:--|--:|--:|\n"
    "| 3 | + | 27 ± 1 |\n| 3 | - | -2.7e-01 |\n"
)
RECORD = {
    "command": "mixfree reproduce fig1",
    "date": "2026-01-02",
    "machine": "a machine",
    "seeds": [1000, 1029],
    "versions": {"numpy": "2.3.0"},
    "commit": "0123456789",
}


@pytest.fixture
def load(monkeypatch):
    """Import what pages are made with."""
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.syspath_prepend(DOCS.parent / "tools")
    return importlib.import_module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built by the first process that wants it: the others wait."""
    several = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if several else base) / "site"
    told = folder / "told.txt"
    try:
        folder.mkdir()
    except FileExistsError:
        end = time.monotonic() + 500.0
        while not told.exists():
            assert time.monotonic() < end, "the site was begun by another process, and not ended"
            time.sleep(0.5)
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet", DOCS, folder]
        built = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        words = built.stderr[-3000:] or "no reason given" if built.returncode else ""
        (folder / "telling.txt").write_text(words, encoding="utf-8")
        (folder / "telling.txt").rename(told)
    assert told.read_text(encoding="utf-8") == ""
    return folder


def test_every_public_name_is_in_the_reference(site):
    """Fails for a module that no page of the reference has."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    described = {name for kind in inventory.data.values() for name in kind}
    found = {
        id(getattr(importlib.import_module(module), name))
        for module in MODULES
        for name in importlib.import_module(module).__all__
        if f"{module}.{name}" in described
    }
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            assert id(value) in found or not callable(value), f"{module}.{name}"


def test_numbers_have_their_age_and_notebooks_their_file(site):
    """A directive that shows nothing, and a link that leads nowhere, are no warning to Sphinx."""
    page = (site / "reproduction.html").read_text(encoding="utf-8")
    assert page.count(">All tables<") == page.count("<small>") > 0
    for notebook in (DOCS / "notebooks").glob("*.py"):
        page = (site / "notebooks" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert "data:image/png" in page and f'href="{notebook.stem}.ipynb"' in page
        assert (site / "notebooks" / f"{notebook.stem}.ipynb").exists()


@in_a_browser
def test_pages_open_without_an_error(browser, site):
    """A table too wide for a telephone, or a script that needs a network, would show here."""
    pages = ("index", "reference/methods", "reference/commands", "td", "coverage")
    for page in (*pages, "three-ways", "notebooks/chains"):
        for width, mode in ((1330, "light"), (1300, "light"), (1080, "light"), (400, "dark")):
            emulate(browser, width, mode)
            open_page(browser, (site / f"{page}.html").as_uri())
            assert browser.get_log("browser") == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert browser.execute_script("return document.querySelectorAll('h1').length") == 1
    # A site without its index finds nothing; TeX that is left as it is has no subscripts.
    open_page(browser, (site / "search.html").as_uri() + "?q=reservoir")
    wait_for(browser, "return document.querySelectorAll('ul.search li').length > 0")
    open_page(browser, (site / "reference" / "methods.html").as_uri())
    assert browser.execute_script("return document.querySelectorAll('math msub').length") > 0
    # On a telephone a figure of several panels is read by opening it alone.
    open_page(browser, (site / "ladder.html").as_uri())
    browser.execute_script("document.querySelector('article a > img').click()")
    wait_for(browser, "return location.href.endsWith('.png')")


@pytest.fixture
def published(load, tmp_path):
    """One report, whose two tables have a line and a column in common."""
    folder = tmp_path / "powers"
    folder.mkdir()
    (folder / "report.md").write_text(TABLES, encoding="utf-8")
    (folder / "measured.json").write_text(json.dumps(RECORD))
    return load("publish").Published(tmp_path)


def test_what_a_page_names_wrongly_is_refused(published):
    """Catches a sentence with the number of another table; pages have what is right."""
    assert published.number("powers : Cubes : 3, + : n³") == "27"
    assert published.cell("powers : 3, - : n³").replace("\N{MINUS SIGN}", "-") == "-2.7e-01"
    for wrong in ("powers : 3 : n³", "powers : 4 : n²", "powers : Sq : 3 : n³"):
        with pytest.raises(ValueError, match=r"cells of 'powers' are"):
            published.cell(wrong)
    for wrong, message in (
        ("powers\nCub : 4", "the table has no"),
        ("powers\nCub : 3 : n²", "the table has no"),
        ("powers\nRoots\nCub", "tables of 'powers' begin with"),
        ("powers\n\nCub", "tables of 'powers' begin with"),
        ("nothing", "there is no 'nothing' in docs/data: powers"),
    ):
        with pytest.raises(ValueError, match=message):
            published.written(f"<!-- tables of {wrong}\n-->?<!-- end -->")


def test_pages_show_what_is_published(load):
    """Catches a page that was not written again, and a published table that no page shows."""
    published = load("publish").Published()
    paths = {*DOCS.rglob("*.md")} - {*(DOCS / "data").rglob("*.md")}
    pages = {path: path.read_text(encoding="utf-8") for path in paths}
    stale = [path.name for path, page in pages.items() if published.written(page) != page]
    assert stale == [], "run python tools/publish.py"
    # A line that begins with a comment would end its paragraph.
    broken = r"^\s*<!-- (cell|number)"
    assert not [path for path, page in pages.items() if re.search(broken, page, re.MULTILINE)]
    for folder in (DOCS / "data").iterdir():
        record = json.loads((folder / "measured.json").read_bytes())
        assert record.keys() == RECORD.keys(), folder
        assert any(f"<!-- tables of {folder.name}" in page for page in pages.values()), folder


def test_a_cell_of_a_notebook_shows_what_it_prints_returns_and_draws(load):
    """A cell that fails or warns must fail the build."""
    percent = load("percent")
    text = "# %% [markdown]\n# # Title\n\n# %%\nprint(1)\nx = 2\n\n# %%\nx + 1\n"
    page = percent.page(text, "name")
    assert page.startswith("# Title\n\n```python\nprint(1)\nx = 2\n```\n\n```text\n1\n```")
    assert "```text\n3\n```" in page and 'href="name.ipynb"' in page
    draw = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()"
    assert len(percent.run_cell(draw, {}, "name")[1]) == 1
    for wrong in ("1 / 0", "import warnings\nwarnings.warn('words')"):
        with pytest.raises((ZeroDivisionError, UserWarning)):
            percent.run_cell(wrong, {}, "name")
    kinds = [cell["cell_type"] for cell in json.loads(percent.ipynb(text))["cells"]]
    assert kinds == ["markdown", "code", "code"]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_beside_the_site_lead_somewhere(name):
    """The site checks its own; a heading that was renamed leaves these behind."""
    root = DOCS.parent
    text = (root / name).read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#]+)#?([^)]*)\)", text):
        assert (root / path).exists(), path
        if anchor:
            heads = re.findall(r"^#+ (.+)$", (root / path).read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in slugs, f"{path}#{anchor}"


@pytest.mark.parametrize(
    ("page", "folder"), [("docs/paper.md", "."), ("CONTRIBUTING.md", "src/mixfree")]
)
def test_files_that_are_named_exist(page, folder):
    """Catches a walk through the code, or a check of the paper, whose file was renamed."""
    root = DOCS.parent
    named = re.findall(r"`((?:\w+/)+[a-z]\w+\.py)", (root / page).read_text(encoding="utf-8"))
    missing = [
        path for path in named if not any((root / at / path).exists() for at in (folder, "."))
    ]
    assert len(named) > 9 and missing == []


def test_guarantees_have_the_tests_that_are_named():
    """Catches a guarantee whose test was renamed or removed."""
    paths = [*Path(__file__).parent.rglob("*.py")]
    texts = "".join(path.read_text(encoding="utf-8") for path in paths)
    known = {*(path.name for path in paths), *re.findall(r"def (test_\w+)", texts)}
    text = (DOCS.parent / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_[\w.]+)`", text)
    assert len(named) > 9 and {*named} <= known
