"""The compile cache is stale when anything that was compiled in has changed."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import mixfree
from mixfree.kernels import cache
from mixfree.kernels.cache import SafeFiles, keep_on_disk, warn_once

PACKAGE = Path(mixfree.__file__).parent


def where_constants_are_from():
    """Files from which a module of kernels imports a number."""
    twins = [*(PACKAGE / "kernels").glob("*.py"), *(PACKAGE / "reproduce").glob("*/*_kernel.py")]
    for source in twins:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("mixfree"):
                module = importlib.import_module(node.module)
                values = (getattr(module, alias.name) for alias in node.names)
                if any(isinstance(value, int | float) for value in values):
                    yield Path(module.__file__)


def test_the_fingerprint_covers_every_constant_that_is_compiled_in():
    found = set(where_constants_are_from())
    assert PACKAGE / "steps" / "distance.py" in found
    assert found <= set(cache.sources())


def test_the_fingerprint_follows_the_text_of_a_source(tmp_path, monkeypatch):
    copies = []
    for source in cache.sources():
        copies.append(tmp_path / f"{source.parent.name}-{source.name}")
        copies[-1].write_bytes(source.read_bytes())
    monkeypatch.setattr(cache, "sources", lambda: copies)
    before = cache.fingerprint.__wrapped__()
    assert before == cache.fingerprint()
    for copy in copies:
        text = copy.read_bytes()
        copy.write_bytes(text + b"#")
        assert cache.fingerprint.__wrapped__() != before, copy.name
        copy.write_bytes(text)


def test_two_processes_that_compile_at_once_do_not_mix_up_their_results(tmp_path, monkeypatch):
    first, second, reader = (SafeFiles(tmp_path, "kernel") for _ in range(3))
    save_data = first._save_data

    def late(name, data):
        second.save("for float32", "the code for float32")
        save_data(name, data)

    monkeypatch.setattr(second, "_load_index", dict)  # looked before the first had written
    monkeypatch.setattr(first, "_save_data", late)
    first.save("for float64", "the code for float64")
    assert reader.load("for float64") is None  # its entry was overwritten: compiled once more
    assert reader.load("for float32") == "the code for float32"


def test_a_result_that_is_not_written_yet_is_compiled_anew(tmp_path, monkeypatch):
    before, after, reader = (SafeFiles(tmp_path, "kernel") for _ in range(3))
    before._source_stamp = "an older source"
    before.save("for float64", "the code of the older source")
    monkeypatch.setattr(after, "_save_data", lambda name, data: None)
    after.save("for float64", "the code that is still on its way")
    assert reader.load("for float64") is None


def test_what_an_older_source_left_behind_is_removed(tmp_path):
    """Results and indices of the same function, at this line and at another; nothing else."""

    def saved(stem, signature, stamp=None):
        files = SafeFiles(tmp_path, stem)
        files._source_stamp = stamp or files._source_stamp
        files.save(signature, f"the code of {stem} for {signature}")
        return files

    saved("sparse.sparse-300.py311", "float64", "an older source")
    saved("linear.linear-93.py311", "float64", "an older source")
    others = [saved(stem, "float64") for stem in ("linear.lin-93.py311", "linear.linear-93.py312")]
    writing = tmp_path / "linear.linear-93.py311.nbi.tmp.0123"
    writing.touch()
    saved("linear.linear-97.py311", "float64")
    now = saved("linear.linear-97.py311", "float32")
    for signature in ("float64", "float32"):
        assert now.load(signature) == f"the code of linear.linear-97.py311 for {signature}"
    for files in others:
        assert files.load("float64") is not None
    assert writing.exists()
    left = sorted(path.name.partition("py31")[0] for path in tmp_path.iterdir() if path != writing)
    assert left == 2 * ["linear.lin-93."] + 2 * ["linear.linear-93."] + 3 * [
        "linear.linear-97."
    ] + (2 * ["sparse.sparse-300."])


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("length", [0, 1, 20])
def test_a_truncated_file_is_compiled_anew(tmp_path, suffix, length):
    """As a full disk leaves it; Numba itself ends in a traceback."""
    files = SafeFiles(tmp_path, "linear.linear-97.py311")
    files.save("float64", "the code")
    for path in tmp_path.glob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[:length])
    assert files.load("float64") is None
    files.save("float64", "the code once more")
    assert files.load("float64") == "the code once more"


def test_what_cannot_be_saved_is_said_once_and_does_no_harm(tmp_path):
    compiled = numba.njit(lambda x: x + 1)
    keep_on_disk(compiled)
    compiled._cache._cache_file = SafeFiles(tmp_path / "missing", "a-1.py311")
    warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="compiled code cannot be kept on disk") as told:
        assert compiled(1) == 2 and compiled(0.5) == 1.5
    assert len(told) == 1


WITHOUT_A_FOLDER = """
import warnings
from numba.core import caching
for locator in caching.CacheImpl._locator_classes:
    locator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import numpy as np, mixfree as mf
    from mixfree.linear.advance import advance_linear
    from mixfree.linear.losses import Squared
    opt = mf.SGD(np.zeros(1))
    advance_linear(opt, Squared(), np.ones((3, 1)), np.ones(3))
print(opt.samples, [str(w.message)[:40] for w in found])
"""


def test_without_a_writable_folder_kernels_are_compiled_and_it_is_said_once():
    """Numba raises RuntimeError there as soon as a module of kernels is imported."""
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_FOLDER],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert told.stdout == "3 ['no folder for compiled code is writable;']\n", told.stderr
