"""The rows that an experiment measures: selected, tabulated and drawn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.figures import styles_of
from mixfree.base.terminal import Table
from mixfree.reproduce.engine.statistics import bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any  # Matplotlib is imported only when something is drawn

Row = dict[str, Any]
DOTS: dict[str, Any] = {"marker": "o", "markersize": 4}


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Select the rows that have all of the given values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def gather(
    rows: Iterable[Row], series: str | tuple[str, ...], x: str, y: str | None = None
) -> dict[Any, dict[Any, list[Any]]]:
    """Collect the values of ``y``, or whole rows, by series and by ``x``, in the order of the rows.

    A series has one value in common, or several.
    """
    found: dict[Any, dict[Any, list[Any]]] = {}
    for row in rows:
        key = row[series] if isinstance(series, str) else tuple(row[name] for name in series)
        found.setdefault(key, {}).setdefault(row[x], []).append(row if y is None else row[y])
    return found


def grid(
    title: str,
    heads: Sequence[str],
    found: Mapping[Any, Mapping[Any, Any]],
    cell: Callable[[Any], object] = str,
) -> Table:
    """Make a table with a line per key or tuple of keys, under ``heads``, and a column per name."""
    names = list(dict.fromkeys(name for group in found.values() for name in group))
    lines = [
        (
            *(key if isinstance(key, tuple) else (key,)),
            *(cell(group[name]) if name in group else "" for name in names),
        )
        for key, group in found.items()
    ]
    return Table(title, [*heads, *map(str, names)], lines)


def curves(
    axes: Axes, rows: Iterable[Row], series: str, x: str, y: str, shade: bool = True, **style: Any
) -> None:
    """Plot the mean of ``y`` against ``x``, one line per series, with its 95 % interval shaded."""
    found_by_name = gather(rows, series, x, y)
    styles = styles_of(map(str, found_by_name))
    for name, points in found_by_name.items():
        at = sorted(points)
        means, low, high = np.array([bootstrap(points[place]) for place in at]).T
        drawn = {"linewidth": 1.8, **styles[str(name)], **style}
        axes.plot(at, means, label=str(name), **drawn)
        if shade and np.isfinite(high).any():
            axes.fill_between(at, low, high, color=drawn["color"], alpha=0.18, lw=0)
