"""Without its library, a drop-in says what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "library", "extra"), [("torch", "torch", "torch"), ("optax", "optax", "jax")]
)
def test_missing_library_names_the_extra(module, library, extra):
    code = f"import sys; sys.modules[{library!r}] = None; import mixfree.{module}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1
    assert f"pip install 'mixfree[{extra}]'" in found.stderr
