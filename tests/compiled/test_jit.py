"""The compile cache is stale when anything that was compiled in has changed."""

import ast
import importlib
from pathlib import Path

import mixfree
from mixfree.compiled import jit

PACKAGE = Path(mixfree.__file__).parent


def where_constants_are_from():
    """Files from which a module of kernels imports a number."""
    for source in (PACKAGE / "compiled").glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("mixfree"):
                module = importlib.import_module(node.module)
                values = (getattr(module, alias.name) for alias in node.names)
                if any(isinstance(value, int | float) for value in values):
                    yield Path(module.__file__)


def test_the_fingerprint_covers_every_constant_that_is_compiled_in():
    found = set(where_constants_are_from())
    assert PACKAGE / "steps" / "distance.py" in found
    assert found <= set(jit.sources())


def test_the_fingerprint_follows_the_text_of_a_source(tmp_path, monkeypatch):
    copies = []
    for source in jit.sources():
        copies.append(tmp_path / f"{source.parent.name}-{source.name}")
        copies[-1].write_bytes(source.read_bytes())
    monkeypatch.setattr(jit, "sources", lambda: copies)
    before = jit._fingerprint.__wrapped__()
    assert before == jit._fingerprint()
    for copy in copies:
        text = copy.read_bytes()
        copy.write_bytes(text + b"#")
        assert jit._fingerprint.__wrapped__() != before, copy.name
        copy.write_bytes(text)
