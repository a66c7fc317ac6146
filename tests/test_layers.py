"""The rooms of the package import one another in one direction only (layers in pyproject)."""

from pathlib import Path

import grimp
import networkx as nx
import pytest

import mixfree
from tests.helpers import run_python

PACKAGE = Path(mixfree.__file__).parent
# The graph of imports cannot see what is imported by its name, nor what the root offers that way.
IMPORT_BY_NAME = {"mixfree", "mixfree.base.extras", "mixfree.reproduce"}
ABOVE_THE_ROOT = {"streams", "reproduce", "cli"}


@pytest.fixture(scope="module")
def graph():
    """Who imports whom when the code runs, lazily or not."""
    return grimp.build_graph("mixfree", exclude_type_checking_imports=True, cache_dir=None)


def module_name(source):
    parts = source.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def test_every_room_imports_only_rooms_below_it(monkeypatch):
    """Fails for an import of a room above, and for a room without a place in the layers."""
    # In a process of its own: the linter's console closes the output that pytest captures.
    check = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"
    monkeypatch.chdir(Path(__file__).parent.parent)
    done = run_python("-c", check)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_one_another(graph):
    """Fails for a cycle inside a room, also one that is hidden by an import in a function."""
    imports = nx.DiGraph(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )
    groups = nx.strongly_connected_components(imports)
    assert [sorted(group) for group in groups if len(group) > 1] == []


def test_no_import_escapes_the_checks(graph):
    """Fails for a layer that is crossed by ``import_module`` or by way of ``import mixfree``."""
    sources = PACKAGE.rglob("*.py")
    by_name = {module_name(each) for each in sources if "import_module(" in each.read_text("utf-8")}
    assert by_name <= IMPORT_BY_NAME
    for importer in graph.find_modules_that_directly_import("mixfree"):
        assert importer.split(".")[1] in ABOVE_THE_ROOT, importer
