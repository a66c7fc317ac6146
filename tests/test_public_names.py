"""Public names change only on purpose: with the list that is kept beside this file."""

import difflib

from tests import public_names


def test_names_and_signatures_are_those_on_record():
    """Fails for an accidental change of them, a name twice, and a module without ``__all__``."""
    recorded = public_names.FILE.read_text(encoding="utf-8").splitlines()
    changed = difflib.unified_diff(
        recorded, public_names.text().splitlines(), "on record", "now", lineterm="", n=2
    )
    difference = "\n".join(changed)
    assert not difference, (
        f"{difference}\nIf this is on purpose: `make public-names`, and a line in CHANGELOG.md."
    )
