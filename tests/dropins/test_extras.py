"""Without its library, a drop-in says what to install."""

import pytest

from tests.helpers import run_python


@pytest.mark.parametrize(
    ("module", "library", "extra"), [("torch", "torch", "torch"), ("optax", "optax", "jax")]
)
def test_missing_library_names_the_extra(module, library, extra):
    code = f"import sys; sys.modules[{library!r}] = None; import mixfree.{module}"
    found = run_python("-c", code)
    assert found.returncode == 1
    assert f"pip install 'mixfree[{extra}]'" in found.stderr
