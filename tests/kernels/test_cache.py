"""The compile cache is stale when anything that was compiled in has changed."""

import ast
import importlib
import pickle
from pathlib import Path

import numba
import pytest

import mixfree
from mixfree.kernels import jit
from mixfree.kernels.jit import CacheFiles, fingerprint
from tests.helpers import run_python

PACKAGE = Path(mixfree.__file__).parent


def where_constants_are_from():
    """Files from which a module of kernels imports a number."""
    twins = [*(PACKAGE / "kernels").glob("*.py"), *(PACKAGE / "reproduce").glob("*_kernel.py")]
    for source in twins:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("mixfree"):
                module = importlib.import_module(node.module)
                values = (getattr(module, alias.name) for alias in node.names)
                if any(isinstance(value, int | float) for value in values):
                    yield Path(module.__file__)


def test_the_fingerprint_covers_every_constant_that_is_compiled_in():
    found = set(where_constants_are_from())
    assert PACKAGE / "steps" / "ladder_rule.py" in found
    assert found <= set(jit.sources())


def test_the_fingerprint_follows_the_text_of_a_source(tmp_path, monkeypatch):
    copies = []
    for source in jit.sources():
        copies.append(tmp_path / f"{source.parent.name}-{source.name}")
        copies[-1].write_bytes(source.read_bytes())
    monkeypatch.setattr(jit, "sources", lambda: copies)
    before = jit.fingerprint.__wrapped__()
    assert before == jit.fingerprint()
    for copy in copies:
        text = copy.read_bytes()
        copy.write_bytes(text + b"#")
        assert jit.fingerprint.__wrapped__() != before, copy.name
        copy.write_bytes(text)


def test_two_processes_that_compile_at_once_do_not_mix_up_their_results(tmp_path, monkeypatch):
    first, second, reader = (CacheFiles(tmp_path, "kernel", fingerprint()) for _ in range(3))
    save_data = first._save_data

    def late(name, data):
        second.save("for float32", "the code for float32")
        save_data(name, data)

    monkeypatch.setattr(second, "_load_index", dict)  # looked before the first had written
    monkeypatch.setattr(first, "_save_data", late)
    first.save("for float64", "the code for float64")
    assert reader.load("for float64") is None  # its entry was overwritten: compiled once more
    assert reader.load("for float32") == "the code for float32"


@pytest.mark.parametrize(
    "index", [b"", b"a cut file", pickle.dumps(numba.__version__) + b"cmixfree\nGone\n."]
)
def test_an_index_that_cannot_be_read_is_compiled_anew(tmp_path, index):
    """As after an upgrade that renames a part; Numba itself ends in a traceback."""
    files = CacheFiles(tmp_path, "kernel", fingerprint())
    files.save("for float64", "the code")
    (tmp_path / files._index_name).write_bytes(index)
    assert files.load("for float64") is None
    files.save("for float64", "the code once more")
    assert files.load("for float64") == "the code once more"


WITHOUT_A_FOLDER = """
import warnings
from numba.core import caching
for locator in caching.CacheImpl._locator_classes:
    locator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("default")
    import numpy as np, mixfree as mf
    from mixfree.linear.advance import advance_linear
    from mixfree.linear.losses import Squared
    opt = mf.SGD(np.zeros(1))
    advance_linear(opt, Squared(), np.ones((3, 1)), np.ones(3))
print(opt.samples, [str(w.message)[:40] for w in found])
"""


def test_without_a_writable_folder_kernels_are_compiled_and_it_is_said_once():
    """Numba raises RuntimeError there as soon as a module of kernels is imported."""
    told = run_python("-c", WITHOUT_A_FOLDER)
    assert told.stdout == "3 ['no folder for compiled code is writable;']\n", told.stderr
