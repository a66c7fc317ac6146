"""What is shown of results: a table on the terminal and curves with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.experiments.statistics import estimate
from mixfree.extras import require
from mixfree.figures import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, Any]
# Said wherever the paper's experiment is shown: its gain is not what the theory is about.
CAVEAT = (
    "With 5 levels a window has at most 32 samples, while the mixing time at p = 1e-4 is 3,466: "
    "much of MAG's gain here comes from smaller steps."
)


def curves(axes: Axes, rows: Iterable[Row], x: str, y: str, series: str) -> None:
    """Plot the mean of ``y`` against ``x``, a line a ``series``, with its 95 % interval shaded."""
    gathered: dict[Any, dict[Any, list[float]]] = {}
    for row in rows:
        gathered.setdefault(row[series], {}).setdefault(row[x], []).append(row[y])
    for index, (name, points) in enumerate(gathered.items()):
        at = sorted(points)
        found = [estimate(points[place]) for place in at]
        means = np.array([each.mean for each in found])
        axes.plot(at, means, label=str(name), linewidth=1.8, **line_style(index))
        if any(np.isfinite(each.half) for each in found):
            # Half an interval may reach below zero, where a logarithm has no place.
            low = np.maximum([each.low for each in found], means / 50.0)
            high = [each.high for each in found]
            axes.fill_between(at, low, high, color=line_style(index)["color"], alpha=0.18, lw=0)


def print_table(title: str, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """Print a table; the first column is left-aligned, the others right."""
    table = require("rich.table").Table(title=title, title_justify="left")
    for index, name in enumerate(head):
        table.add_column(name, justify="right" if index else "left")
    for line in lines:
        table.add_row(*map(str, line))
    require("rich").print(table)
