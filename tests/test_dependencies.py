"""Every package that the source imports is declared in pyproject, and extras are optional."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import mixfree
from mixfree.base.extras import EXTRA_OF

PACKAGE = Path(mixfree.__file__).parent
PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
IMPORT_NAMES = {"scikit-learn": "sklearn"}
# Rooms that are useless without an extra: they ask for it once, and then import it as usual.
EXTRA_OF_ROOM = {"torch": "torch", "optax": "jax", "cli": "cli"}


def packages(requirements):
    """Import names of requirements such as ``numpy>=2.0``."""
    names = (re.match(r"[\w-]+", requirement).group() for requirement in requirements)
    return {IMPORT_NAMES.get(name, name) for name in names}


BASE = packages(PROJECT["dependencies"])
EXTRAS = {name: packages(each) for name, each in PROJECT["optional-dependencies"].items()}


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported(node):
    """Third-party packages that the code below ``node`` imports when it runs, without require."""
    for child in ast.iter_child_nodes(node):
        modules = []
        if isinstance(child, ast.Import):
            modules = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            modules = [child.module]
        for module in modules:
            package = module.partition(".")[0]
            if package not in sys.stdlib_module_names | {"mixfree"}:
                yield package
        if not is_for_type_checkers(child):
            yield from imported(child)


def required(tree):
    """Packages that are imported by ``require("name")``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
            argument = node.args[0]
            if isinstance(argument, ast.Constant):
                yield argument.value.partition(".")[0]


def trees():
    for source in sorted(PACKAGE.rglob("*.py")):
        yield source.relative_to(PACKAGE), ast.parse(source.read_text(encoding="utf-8"))


def test_imported_packages_are_dependencies():
    """Fails for a package that is there only because another dependency brings it."""
    found = set()
    for source, tree in trees():
        allowed = BASE | EXTRAS.get(EXTRA_OF_ROOM.get(source.parts[0]), set())
        packages_here = set(imported(tree))
        assert packages_here <= allowed, f"{source} imports {packages_here - allowed}"
        found |= packages_here
    assert found >= BASE, f"declared but never imported: {BASE - found}"


def test_required_packages_are_of_the_extra_that_the_error_names():
    """Fails for ``require`` of a package that no extra has, and for an error with a wrong extra."""
    asked = {room: set() for room in EXTRA_OF_ROOM}
    for source, tree in trees():
        for package in required(tree):
            assert package in BASE | EXTRA_OF.keys(), f"{source} requires {package}"
            asked.get(source.parts[0], set()).add(EXTRA_OF.get(package))
    for package, extra in EXTRA_OF.items():
        assert package in EXTRAS[extra]
    for room, extra in EXTRA_OF_ROOM.items():
        assert extra in asked[room], f"{room} never asks for the extra {extra!r}"
