"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

Used by ``make lowest`` and by the workflow, so that the declared versions are tested.
"""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def lowest() -> list[str]:
    """Return lines such as ``numpy==2.0``."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found = (re.fullmatch(r"([\w-]+)>=([\w.]+)", each) for group in groups for each in group)
    return sorted({f"{each[1]}=={each[2]}" for each in found if each})


if __name__ == "__main__":
    print("\n".join(lowest()))
