"""The style of every figure: readable for colour-blind readers and in greyscale.

Figures are plain ``matplotlib.figure.Figure`` objects: no window, no display, no global state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.files import check_place, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Colour, dashes, and the methods that have this colour in every figure: Okabe and Ito's palette,
# the most legible on white first, with a darker yellow that shows in thin lines, and a grey.
_STYLES: tuple[tuple[str, Any, list[str]], ...] = (
    ("#0072B2", "solid", ["sgd"]),
    ("#D55E00", (0, (5, 1.5)), ["adagrad"]),
    ("#009E73", (0, (1, 1)), ["sgd-mlmc"]),
    ("#000000", (0, (6, 1.5, 1, 1.5)), ["mag", "algorithm-1"]),
    ("#CC79A7", (0, (3, 1, 1, 1, 1, 1)), ["ladder"]),
    ("#56B4E9", (0, (10, 2)), ["minibatch"]),
    ("#E69F00", (0, (2, 3)), ["emd"]),
    ("#857A00", (0, (8, 2, 2, 2)), ["sgd-dd"]),
    ("#8A8A8A", (0, (4, 1)), ["sgd-er", "sgd-rer"]),
)
PALETTE = tuple(color for color, _, _ in _STYLES)
DASHES = tuple(dashes for _, dashes, _ in _STYLES)
METHODS = {name: color for color, _, names in _STYLES for name in names}
METHODS |= {"exact": "#5B2A86", "lstd": "#5B2A86"}
FORMATS = (".png", ".svg")
LABEL_GAP = 0.06  # least distance between two labels, as a share of the height
MARK = "mixfree figure"  # in the metadata of every figure


def styles_of(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each series of a figure, as keywords for ``axes.plot``.

    A series whose name has that of a method in it, like "MAG, 10 levels", has the method's colour
    in every figure. All other series have the colours that are left. Series of one colour differ
    in their dashes.
    """
    colors = {}
    for name in names:
        words = re.findall(r"[a-z]+(?:-[a-z0-9]+)*", name.lower())
        colors[name] = next((METHODS[word] for word in words if word in METHODS), None)
    free = cycle(color for color in PALETTE if color not in colors.values())
    found: dict[str, dict[str, Any]] = {}
    for name, color in colors.items():
        color = color or next(free)
        first = PALETTE.index(color) if color in PALETTE else 0
        same = sum(style["color"] == color for style in found.values())
        found[name] = {"color": color, "linestyle": DASHES[(first + same) % len(DASHES)]}
    return found


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 6.4, height: float = 4.0, **subplots: Any
) -> tuple[Figure, Any]:
    """Make a figure in this style, with one set of axes or an array of them.

    Width and height are in inches; ``subplots`` are passed to ``Figure.subplots``.
    """
    figure = require("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, **subplots)
    for each in figure.axes:
        each.set_prop_cycle(color=PALETTE, linestyle=DASHES)
        each.grid(True, which="major", color="#dddddd", linewidth=0.6)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def log_log(axes: Axes, xlabel: str = "", ylabel: str = "") -> None:
    """Make both axes logarithmic and label them."""
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)


def plain_ticks(axis: Axis) -> None:
    """Label a short logarithmic axis with plain numbers (1, 2, 3, 5, 10), not powers of ten."""
    ticker = require("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def label_ends(axes: Axes, names: Mapping[str, str] | None = None) -> None:
    """Write the label of each line, or its name in ``names``, at its end, instead of a legend.

    Lines, scales and limits must be in place: labels are moved apart by them.
    """
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    within = axes.transData + axes.transAxes.inverted()
    ends = [float(within.transform(np.asarray(line.get_xydata()))[-1, 1]) for line in lines]
    for line, place in zip(lines, _apart(ends), strict=True):
        label = str(line.get_label())
        axes.annotate(
            (names or {}).get(label, label),
            (1.0, place),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )


def _apart(wished: Sequence[float]) -> Array:
    """Places in the order of the wished ones, at least ``LABEL_GAP`` apart, and at most 1."""
    order = np.argsort(wished, kind="stable")
    ranks = LABEL_GAP * np.arange(len(order))
    level = np.asarray(wished)[order] - ranks
    # Halfway between pushing the upper labels up and the lower ones down, both in order.
    up, down = np.maximum.accumulate(level), np.minimum.accumulate(level[::-1])[::-1]
    places = np.minimum((up + down) / 2.0 + ranks, 1.0 - ranks[::-1])
    found: Array = places[np.argsort(order)]
    return found


def check_figures(path: str | PathLike[str], name: str, force: bool = False) -> list[Path]:
    """Make the folder of figures, and return the paths that :func:`save` writes.

    ValueError or OSError if it must not write there.
    """
    path = Path(path)
    if path.suffix not in ("", *FORMATS):
        raise ValueError(
            f"{name} = {str(path)!r} has the extension {path.suffix!r}; figures are saved as .png "
            "and .svg"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    paths = [path.with_suffix(ending) for ending in FORMATS]
    for each in paths:
        check_place(each, name, MARK.encode(), force=force)
    return paths


def save(figure: Figure, path: str | PathLike[str]) -> list[Path]:
    """Write the figure as PNG and as SVG, and return the two paths.

    The extension may be left out; missing folders are made.
    """
    written = check_figures(path, "path", force=True)
    # Random SVG ids and dates would make the bytes of equal figures differ.
    with require("matplotlib").rc_context({"svg.hashsalt": "mixfree", "svg.fonttype": "none"}):
        with replacing(written[0]) as file:
            figure.savefig(file, format="png", dpi=160, metadata={"Software": MARK})
        with replacing(written[1]) as file:
            figure.savefig(file, format="svg", metadata={"Creator": MARK, "Date": None})
    return written
