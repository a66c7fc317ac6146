"""The style of every figure: readable for colour-blind readers and in greyscale.

Figures are plain ``matplotlib.figure.Figure`` objects: no window, no display, no global state.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixfree.base.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "DASHES",
    "PALETTE",
    "line_style",
    "log_log",
    "new_figure",
    "plain_ticks",
    "save",
    "save_paths",
]

# Okabe and Ito's palette, the most legible on white first, with a darker yellow that shows in thin
# lines, and a grey; each colour has its own dashes.
PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#000000",
    "#CC79A7",
    "#56B4E9",
    "#E69F00",
    "#857A00",
    "#8A8A8A",
)
DASHES = (
    "solid",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (10, 2)),
    (0, (2, 3)),
    (0, (8, 2, 2, 2)),
    (0, (4, 1)),
)
FORMATS = (".png", ".svg")


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the ``index``-th series, as keywords for ``axes.plot``.

    Examples
    --------
    >>> line_style(1)["color"]
    '#D55E00'
    """
    place = index % len(PALETTE)
    return {"color": PALETTE[place], "linestyle": DASHES[place]}


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 6.4, height: float = 4.0, **subplots: Any
) -> tuple[Figure, Any]:
    """Make a figure in this style, with one set of axes or an array of them.

    Parameters
    ----------
    rows, columns
        The grid of axes; for a single one the axes themselves are returned, not an array.
    width, height
        The size of the whole figure in inches.
    **subplots
        Passed to ``Figure.subplots``, for instance ``sharey=True``.

    Examples
    --------
    >>> figure, axes = new_figure()
    >>> line, = axes.plot([1, 2, 3], label="a series")
    """
    figure = require("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, **subplots)
    for each in figure.axes:
        _style(each)
    return figure, axes


def log_log(axes: Axes, xlabel: str = "", ylabel: str = "") -> None:
    """Make both axes logarithmic and label them."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)


def plain_ticks(axis: Axis) -> None:
    """Label a short logarithmic axis with plain numbers (1, 2, 3, 5, 10) instead of powers of ten.

    Examples
    --------
    >>> figure, axes = new_figure()
    >>> line, = axes.semilogy([0.2, 0.6])
    >>> plain_ticks(axes.yaxis)
    >>> axes.yaxis.get_major_formatter()(0.2)
    '0.2'
    """
    ticker = require("matplotlib.ticker")
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def save_paths(path: str | PathLike[str]) -> list[Path]:
    """The paths that :func:`save` writes; ValueError for an extension other than .png and .svg.

    Examples
    --------
    >>> [path.name for path in save_paths("decay.png")]
    ['decay.png', 'decay.svg']
    """
    path = Path(path)
    if path.suffix not in ("", *FORMATS):
        raise ValueError(
            f"path = {str(path)!r} has the extension {path.suffix!r}; figures are saved as .png "
            "and .svg"
        )
    return [path.with_suffix(ending) for ending in FORMATS]


def save(figure: Figure, path: str | PathLike[str]) -> list[Path]:
    """Write the figure as PNG and as SVG, and return the two paths.

    Parameters
    ----------
    path
        Path without extension, or with ``.png`` or ``.svg``; missing folders are made.

    Examples
    --------
    >>> import tempfile
    >>> figure, axes = new_figure()
    >>> [written.name for written in save(figure, tempfile.mkdtemp() + "/decay")]
    ['decay.png', 'decay.svg']
    """
    written = save_paths(path)
    written[0].parent.mkdir(parents=True, exist_ok=True)
    # Random SVG ids and dates would make the bytes of equal figures differ.
    with require("matplotlib").rc_context({"svg.hashsalt": "mixfree", "svg.fonttype": "none"}):
        figure.savefig(written[0], dpi=160)
        figure.savefig(written[1], metadata={"Date": None})
    return written


def _style(axes: Axes) -> None:
    axes.set_prop_cycle(color=PALETTE, linestyle=DASHES)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
