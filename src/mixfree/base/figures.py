"""The style of every figure: readable for colour-blind readers and in greyscale.

Figures are plain ``matplotlib.figure.Figure`` objects: no window, no display, no global state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.extras import require
from mixfree.base.files import check_place, replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "DASHES",
    "METHODS",
    "PALETTE",
    "check_figures",
    "label_ends",
    "line_style",
    "log_log",
    "new_figure",
    "plain_ticks",
    "save",
    "save_paths",
    "styles_of",
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
# The style of each method in every figure, in the order of the table of methods; the two replays
# differ in dashes only, and so do the two least squares, and MAG and Algorithm 1.
_OF_METHODS: dict[str, dict[str, Any]] = {
    name: {"color": color, "linestyle": dashes}
    for name, color, dashes in (
        ("sgd", PALETTE[0], DASHES[0]),
        ("adagrad", PALETTE[1], DASHES[1]),
        ("sgd-mlmc", PALETTE[2], DASHES[2]),
        ("mag", PALETTE[3], DASHES[3]),
        ("algorithm-1", PALETTE[3], DASHES[0]),
        ("ladder", PALETTE[4], DASHES[4]),
        ("minibatch", PALETTE[5], DASHES[5]),
        ("emd", PALETTE[6], DASHES[6]),
        ("sgd-dd", PALETTE[7], DASHES[7]),
        ("sgd-er", PALETTE[8], DASHES[8]),
        ("sgd-rer", PALETTE[8], DASHES[2]),
        ("exact", "#5B2A86", DASHES[0]),
        ("lstd", "#5B2A86", DASHES[1]),
    )
}
METHODS = tuple(_OF_METHODS)
FORMATS = (".png", ".svg")
MARK = "mixfree figure"  # in the metadata of every figure


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the ``index``-th series, as keywords for ``axes.plot``.

    Examples
    --------
    >>> line_style(1)["color"]
    '#D55E00'
    """
    place = index % len(PALETTE)
    return {"color": PALETTE[place], "linestyle": DASHES[place]}


def styles_of(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and dashes of each series of a figure, as keywords for ``axes.plot``.

    A series whose name has that of a method in it, like "MAG, 10 levels", has the method's colour
    in every figure; a second one in the same figure differs in its dashes. All other series have
    the colours that are left.

    Examples
    --------
    >>> found = styles_of(["SGD", "mag", "mag, 10 levels", "Adam"])
    >>> [style["color"] for style in found.values()]
    ['#0072B2', '#000000', '#000000', '#D55E00']
    """
    listed = list(names)
    methods = {name: method for name in listed if (method := _method_in(name)) is not None}
    taken = {_OF_METHODS[method]["color"] for method in methods.values()}
    free = [line_style(place) for place in range(len(PALETTE)) if PALETTE[place] not in taken]
    found: dict[str, dict[str, Any]] = {}
    for name in listed:
        if name in methods:
            style = _OF_METHODS[methods[name]]
            alike = [
                each["linestyle"] for each in found.values() if each["color"] == style["color"]
            ]
            others = (style["linestyle"], *DASHES)
            dashes = next((each for each in others if each not in alike), style["linestyle"])
            found[name] = {**style, "linestyle": dashes}
        else:
            rest = sum(each not in methods for each in found)
            found[name] = free[rest % len(free)]
    return found


def _method_in(name: str) -> str | None:
    words = re.findall(r"[a-z]+(?:-[a-z0-9]+)*", name.lower())
    return next((word for word in words if word in _OF_METHODS), None)


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


def label_ends(axes: Axes, gap: float = 0.06, names: Mapping[str, str] | None = None) -> None:
    """Write the name of each line at its end, in its colour, instead of a legend.

    Parameters
    ----------
    axes
        With its lines, scales and limits in place: the labels are moved apart by them.
    gap
        Least distance between two labels, as a share of the height.
    names
        What to write instead of the label of a line.

    Examples
    --------
    >>> figure, axes = new_figure()
    >>> line, = axes.plot([1, 2, 3], label="squares")
    >>> label_ends(axes)
    >>> axes.texts[0].get_text()
    'squares'
    """
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    within = axes.transData + axes.transAxes.inverted()
    ends = [float(within.transform(np.asarray(line.get_xydata()))[-1, 1]) for line in lines]
    places = _below(_apart(ends, gap), gap)
    for at, line in enumerate(lines):
        label = str(line.get_label())
        axes.annotate(
            (names or {}).get(label, label),
            (1.0, places[at]),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )


def _apart(wished: Sequence[float], gap: float) -> list[float]:
    """Places in the order of the wished ones, as near to them as a least distance allows.

    Examples
    --------
    >>> [round(place, 2) for place in _apart([0.5, 0.0, 0.5], 0.1)]
    [0.45, 0.0, 0.55]
    """
    order = sorted(range(len(wished)), key=lambda at: wished[at])
    groups: list[list[float]] = []  # neighbours that touch, each by its place if none did
    for number, at in enumerate(order):
        groups.append([wished[at] - gap * number])
        while len(groups) > 1 and fmean(groups[-2]) >= fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    level = [fmean(group) for group in groups for _ in group]
    return [level[order.index(at)] + gap * order.index(at) for at in range(len(wished))]


def _below(places: Sequence[float], gap: float, most: float = 1.0) -> list[float]:
    """The same places, moved down where one is above the most.

    Examples
    --------
    >>> [round(place, 2) for place in _below([1.05, 0.2, 0.95], 0.1)]
    [1.0, 0.2, 0.9]
    """
    found = list(places)
    for at in sorted(range(len(found)), key=lambda at: -found[at]):
        found[at] = min(found[at], most)
        most = found[at] - gap
    return found


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


def check_figures(path: str | PathLike[str], name: str, force: bool = False) -> None:
    """Make the folder of figures; ValueError or OSError if :func:`save` must not write there."""
    for each in save_paths(path):
        try:
            each.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"cannot write in the folder {each.parent}: {error.strerror}") from error
        check_place(each, name, MARK.encode(), force=force)


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
        with replacing(written[0]) as file:
            figure.savefig(file, format="png", dpi=160, metadata={"Software": MARK})
        with replacing(written[1]) as file:
            figure.savefig(file, format="svg", metadata={"Creator": MARK, "Date": None})
    return written


def _style(axes: Axes) -> None:
    axes.set_prop_cycle(color=PALETTE, linestyle=DASHES)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
