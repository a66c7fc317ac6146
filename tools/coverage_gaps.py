"""List the modules with less than 90 % of lines covered, from a JSON coverage report."""

import json
import sys
from pathlib import Path

ENOUGH = 90.0


def main(report: str) -> None:
    """Print the modules, the least covered first."""
    found = json.loads(Path(report).read_text(encoding="utf-8"))
    print(f"{found['totals']['percent_covered']:.1f} % of lines are covered")
    below = sorted(
        (about["summary"]["percent_covered"], name)
        for name, about in found["files"].items()
        if about["summary"]["percent_covered"] < ENOUGH
    )
    for percent, name in below:
        print(f"{percent:5.1f} %  {name}")
    if not below:
        print(f"no module is below {ENOUGH:.0f} %")


if __name__ == "__main__":
    main(sys.argv[1])
