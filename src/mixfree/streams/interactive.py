"""The interactive figures of a report page, drawn by Bokeh."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixfree.base.extras import require
from mixfree.base.literal import literal
from mixfree.streams.correlation import Correlation
from mixfree.streams.views import Cells, Course, Effect

__all__ = [
    "LONGEST",
    "cells_picture",
    "correlation_picture",
    "course_picture",
    "cut",
    "effects_picture",
    "error_picture",
    "shortened",
]

LONGEST = 80  # most characters of a name in the text
DRAWN = 28  # most characters of a name in a figure, which must fit on a phone
HEIGHT = 300
# Legible on white and on black, and distinguishable for colour-blind readers.
BLUE, ORANGE, GREY = "#2f86c9", "#d9731a", "#8a8a8a"


def course_picture(found: Course) -> Any:
    """Draw predictions and targets over time."""
    figure, source = _course_figure(found, found.of)
    if (found.low < found.high).any():
        figure.varea(
            "x", "low", "high", source=source, color=BLUE, alpha=0.15, legend_label="range"
        )
    figure.line("x", "actual", source=source, color=BLUE, width=2, legend_label="actual, mean")
    figure.line(
        "x", "predicted", source=source, color=ORANGE, width=2, legend_label="predicted, mean"
    )
    _hover(
        figure,
        [_when(found), ("actual", "@actual{0.[000]a}"), ("predicted", "@predicted{0.[000]a}")],
        found,
    )
    return figure


def error_picture(found: Course) -> Any:
    """Draw errors over time, and their jumps."""
    figure, source = _course_figure(found, found.error_name)
    figure.line("x", "error", source=source, color=BLUE, width=2)
    figure.scatter("x", "error", source=source, color=BLUE, size=4)
    _hover(figure, [_when(found), (found.error_name, "@error{0.[000]a}")], found)
    for jump in found.jumps:
        _rule(figure, "height", found.x[jump.at], **_DASHED)
    return figure


def effects_picture(found: Sequence[Effect], unit: str) -> Any:
    """Draw effects with their intervals, the largest on top."""
    plotting = require("bokeh.plotting")
    names = _different([_drawn(each.name) for each in found])
    figure = plotting.figure(
        **_SIZE | {"height": 80 + 20 * len(names)},
        y_range=names[::-1],
        x_axis_label=f"change of {_drawn(unit)} per standard deviation",
    )
    has_ends = bool(found) and found[0].low == found[0].low
    shown = [each._replace(name=name) for name, each in zip(names, found, strict=True)]
    for hollow, colour in ((False, BLUE), (True, GREY)):
        chosen = [each for each in shown if each.may_be_zero == hollow]
        if not chosen:
            continue
        columns = ("name", "effect", "low", "high")
        data = {column: [getattr(each, column) for each in chosen] for column in columns}
        source = plotting.ColumnDataSource(data)
        if has_ends:
            figure.segment("low", "name", "high", "name", source=source, color=colour, width=2)
        fill = None if hollow else colour
        figure.scatter(
            "effect", "name", source=source, size=9, line_color=colour, fill_color=fill, width=2
        )
    _rule(figure, "height", 0.0)
    ends = [("from", "@low{0.[0000]a}"), ("to", "@high{0.[0000]a}")] if has_ends else []
    _hover(figure, [("feature", "@name"), ("effect", "@effect{0.[0000]a}"), *ends], None)
    return figure


def correlation_picture(found: Correlation) -> Any:
    """Draw the correlation profile, titled with its verdict."""
    plotting, models = require("bokeh.plotting"), require("bokeh.models")
    low = np.maximum(found.ratios - found.errors, 0.1 * found.ratios)
    source = plotting.ColumnDataSource(
        {
            "length": found.lengths,
            "ratio": found.ratios,
            "low": low,
            "high": found.ratios + found.errors,
        }
    )
    figure = plotting.figure(
        **_SIZE,
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label="rows per block",
        y_axis_label="variance inflation",
        title=next(found.lines()),
    )
    figure.title.text_font_size = "11px"
    for axis in figure.axis:
        axis.formatter = models.NumeralTickFormatter(format="0,0.[00]")
    figure.segment("length", "low", "length", "high", source=source, color=BLUE, width=2)
    figure.line("length", "ratio", source=source, color=BLUE, width=2)
    figure.scatter("length", "ratio", source=source, color=BLUE, size=7)
    _rule(figure, "width", 1.0)
    if found.correlated:
        _rule(figure, "height", max(found.scale, 1), **_DASHED)
        more = " or more" if found.rising else ""
        right = found.scale**2 > found.lengths[0] * found.lengths[-1]
        figure.add_layout(
            models.Label(
                x=max(found.scale, 1),
                y=float(low.min()),
                text=f" {found.scale:,} rows{more} ",
                text_color=ORANGE,
                text_baseline="bottom",
                text_align="right" if right else "left",
            )
        )
    _hover(figure, [("rows per block", "@length{0,0}"), ("inflation", "@ratio{0.[00]a}")], None)
    return figure


def cells_picture(name: str, cells: Cells) -> Any:
    """Draw mean errors by hour or weekday."""
    plotting = require("bokeh.plotting")
    figure = plotting.figure(
        **_SIZE, x_range=cells.labels, x_axis_label=name, y_axis_label="actual − predicted"
    )
    source = plotting.ColumnDataSource(
        {
            "label": cells.labels,
            "mean": cells.mean,
            "low": cells.mean - cells.error,
            "high": cells.mean + cells.error,
        }
    )
    figure.vbar("label", 0.7, "mean", source=source, color=BLUE, alpha=0.6)
    figure.segment("label", "low", "label", "high", source=source, color=ORANGE, width=2)
    _rule(figure, "width", 0.0)
    _hover(figure, [(name, "@label"), ("mean error", "@mean{0.[000]a}")], None)
    return figure


_SIZE = {
    "height": HEIGHT,
    "sizing_mode": "stretch_width",
    "tools": "pan,box_zoom,wheel_zoom,reset,save",
    "output_backend": "canvas",
    "background_fill_alpha": 0.0,
    "border_fill_alpha": 0.0,
    "outline_line_color": None,
}


_DASHED: dict[str, Any] = {"line_color": ORANGE, "line_width": 1.5, "line_dash": "dashed"}


def _rule(figure: Any, dimension: str, at: float, line_color: str = GREY, **style: Any) -> None:
    """Draw a line across the whole height or width of a figure."""
    span = require("bokeh.models").Span
    figure.add_layout(span(location=at, dimension=dimension, line_color=line_color, **style))


def _course_figure(found: Course, label: str) -> tuple[Any, Any]:
    plotting = require("bokeh.plotting")
    figure = plotting.figure(
        **_SIZE,
        x_axis_type="datetime" if found.dated else "linear",
        x_axis_label="" if found.dated else "row",
        y_axis_label=_drawn(label),
    )
    figure.xaxis.ticker.desired_num_ticks = 4
    if not found.dated:
        figure.xaxis.formatter = require("bokeh.models").NumeralTickFormatter(format="0,0")
    columns = ("x", "rows", "actual", "low", "high", "predicted", "error")
    data = {name: np.asarray(getattr(found, name), np.float64) for name in columns}
    source = plotting.ColumnDataSource(data)
    return figure, source


def _when(found: Course) -> tuple[str, str]:
    return ("from", "@x{%F %H:%M}") if found.dated else ("from row", "@x{0,0}")


def _hover(figure: Any, tooltips: list[tuple[str, str]], found: Course | None) -> None:
    dated = found is not None and found.dated
    tool = require("bokeh.models").HoverTool(
        tooltips=tooltips, formatters={"@x": "datetime"} if dated else {}
    )
    figure.add_tools(tool)
    figure.toolbar.logo = None
    if figure.legend:
        figure.legend.click_policy = "hide"
        figure.legend.background_fill_alpha = 0.0
        figure.legend.border_line_color = None
        figure.legend.orientation = "horizontal"
        figure.add_layout(figure.legend[0], "above")


def _drawn(text: str) -> str:
    """Return a text for a figure, where dollars and backslashes would begin a formula."""
    return shortened(text, DRAWN).replace("$", "＄").replace("\\", "＼")


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text with unprintable characters escaped, truncated if it is long."""
    return cut(literal(text), most)


def cut(text: str, most: int) -> str:
    """Truncate a text.

    Examples
    --------
    >>> cut("temperature", 8)
    'tempera…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def _different(names: Iterable[str]) -> list[str]:
    """Number names that were truncated to the same text."""
    found: dict[str, None] = {}
    for name in names:
        number, one = 2, name
        while one in found:
            one, number = f"{name} ({number})", number + 1
        found[one] = None
    return list(found)
