"""Public names change only on purpose: with the list that is kept beside this file."""

import difflib
import importlib

import pytest

from tests import public_names


@pytest.mark.parametrize("name", public_names.MODULES)
def test_public_modules_list_what_they_have(name):
    """Fails for a module without ``__all__``, and for names in it that are private or missing."""
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for each in module.__all__:
        assert not each.startswith("_")
        assert hasattr(module, each)


def test_names_and_signatures_are_those_on_record():
    """Fails for a public name or parameter that was added, renamed or dropped by accident."""
    recorded = public_names.FILE.read_text(encoding="utf-8").splitlines()
    changed = difflib.unified_diff(
        recorded, public_names.text().splitlines(), "on record", "now", lineterm="", n=2
    )
    difference = "\n".join(changed)
    assert not difference, (
        f"{difference}\nIf this is on purpose: `make public-names`, and a line in CHANGELOG.md."
    )
