"""The figures of a report page: their content, and how Bokeh draws them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.terminal import literal
from mixfree.linear.summary import Line
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.correlation import Correlation
from mixfree.streams.report.facts import Facts

AROUND = 3  # bins compared before and after a jump
JUMP = 1.5  # least ratio of errors at a jump
UNUSUAL = 2.0  # least size of a jump, in typical changes from bin to bin
MOST_JUMPS = 5  # most jumps reported
EFFECTS = 30  # most features in the figure of the weights
DRAWN = 28  # most characters of a name in a figure, which must fit on a phone
# Legible on white and on black, and distinguishable for colour-blind readers.
BLUE, ORANGE, GREY = "#2f86c9", "#d9731a", "#8a8a8a"
DASHED: dict[str, Any] = {"color": ORANGE, "line_width": 1.5, "line_dash": "dashed"}
STYLE = {
    "height": 300,
    "sizing_mode": "stretch_width",
    "tools": "pan,box_zoom,wheel_zoom,reset,save",
    "output_backend": "canvas",
    "background_fill_alpha": 0.0,
    "border_fill_alpha": 0.0,
    "outline_line_color": None,
}


class Course(NamedTuple):
    """The course of a stream.

    ``columns`` have per bin: its beginning ``x``, in milliseconds since 1970 if ``dated``, else a
    row number; mean, least and greatest target ``actual``, ``low`` and ``high``; mean prediction
    ``predicted`` and test-then-train ``error``, NaN where no row was predicted. ``jumps`` are
    sentences on bins at which the error jumps, by the place of the bin.
    """

    columns: dict[str, Array]
    dated: bool
    of: str
    error_name: str
    jumps: dict[int, str]


def course(fit: StreamFit) -> Course:
    """Return the course of a stream for plotting."""
    bins, classes, target = fit.timeline.bins, fit.encoder.classes, fit.encoder.target
    dated = bool((np.diff(bins.times) > np.timedelta64(0)).all() and not np.isnat(bins.times).any())
    first = bins.ends - bins.rows + 1.0
    of, error, name = f"probability of the actual {target}", bins.loss, "log loss"
    low = high = bins.target  # classes have no range
    if classes is None:
        of, error, name = target, np.sqrt(bins.squares), "RMSE"
        low, high = bins.least, bins.greatest
    elif len(classes) == 2:
        of = f"share of {target} = {classes[1]}"
    x = bins.times.astype(np.int64) / 1000.0 if dated else first
    columns = {"x": x, "actual": bins.target, "low": low, "high": high}
    jumps = {}
    for at, (before, after) in _jumps(error).items():
        moves = "rises" if after > before else "falls"
        when = bins.times[at].astype("M8[m]")
        date = "" if np.isnat(when) else f" ({str(when).replace('T', ' ')})"
        jumps[at] = (
            f"{name} {moves} from {before:.3g} to {after:.3g} at about row {first[at]:,.0f}{date}"
        )
    return Course(columns | {"predicted": bins.predicted, "error": error}, dated, of, name, jumps)


def _jumps(error: Array) -> dict[int, tuple[float, float]]:
    """Return bins from which on all errors are clearly above, or below, all those before."""
    known = np.flatnonzero(error > 0.0)
    if len(known) < 2 * AROUND:
        return {}
    logs = np.log(error[known])
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(logs, AROUND), axis=1)
    before, after = windows[:-AROUND], windows[AROUND:]
    change = np.maximum(after[:, 0] - before[:, -1], before[:, 0] - after[:, -1])
    least = max(np.log(JUMP), UNUSUAL * float(np.median(np.abs(np.diff(logs)))))
    largest = np.argsort(-change, kind="stable")[:MOST_JUMPS]
    middle = np.exp(windows[:, AROUND // 2]).tolist()
    found = sorted(int(each) for each in largest if change[each] > least)
    return {int(known[at + AROUND]): (middle[at], middle[at + AROUND]) for at in found}


def effects(facts: Facts, most: int = EFFECTS) -> list[Line]:
    """Return the weights of the largest effects, scaled to one standard deviation of the feature.

    They are in the units of the prediction, in decreasing order.
    """
    columns, spreads = facts.fit.model.learner.weights.shape[1], facts.fit.model.rows.std(axis=0)
    found = []
    for place in np.argsort(-np.abs(facts.effects), axis=None, kind="stable")[:most].tolist():
        output, feature = divmod(place, len(spreads))
        each = facts.summary.lines[output * columns + feature]
        name = each.feature if each.label is None else f"{each.feature} → {each.label}"
        weight, low, high = (spreads[feature] * end for end in (each.weight, each.low, each.high))
        found.append(each._replace(feature=name, weight=weight, low=low, high=high))
    return found


def figures(facts: Facts, course: Course, effects: Sequence[Line]) -> dict[str, Any]:
    """Return the figures of a page by name."""
    encoder, found = facts.fit.encoder, facts.correlation
    unit = encoder.target if encoder.classes is None else "log-odds"
    several = len(course.columns["x"]) > 1  # a line needs two bins
    drawn = {"predicted": _draw_course(course)} if several else {}
    drawn["weights"] = _draw_effects(effects, unit)
    if several and facts.fit.timeline.tested:
        drawn["loss"] = _draw_error(course)
    if found is not None and found.ratios.size > 1:
        drawn["correlation"] = _draw_correlation(found)
    return drawn


def _draw_course(found: Course) -> Any:
    """Draw predictions and targets over time."""
    hover = {"actual": "@actual{0.[000]a}", "predicted": "@predicted{0.[000]a}"}
    figure, source = _over_time(found, found.of, hover)
    if (found.columns["low"] < found.columns["high"]).any():
        style = {"color": BLUE, "alpha": 0.15, "legend_label": "range"}
        figure.varea("x", "low", "high", source=source, **style)
    for name, colour in (("actual", BLUE), ("predicted", ORANGE)):
        figure.line("x", name, source=source, color=colour, width=2, legend_label=f"{name}, mean")
    legend = figure.legend[0]
    legend.update(click_policy="hide", background_fill_alpha=0.0, border_line_color=None)
    legend.orientation = "horizontal"
    figure.add_layout(legend, "above")
    return figure


def _draw_error(found: Course) -> Any:
    """Draw errors over time, and their jumps."""
    figure, source = _over_time(found, found.error_name, {found.error_name: "@error{0.[000]a}"})
    figure.line("x", "error", source=source, color=BLUE, width=2)
    figure.scatter("x", "error", source=source, color=BLUE, size=4)
    figure.vspan(found.columns["x"][[*found.jumps]], **DASHED)
    error = found.columns["error"]
    known = error[np.isfinite(error)]
    if len(known) > 2 and known[0] > 2.0 * known[1:].max():
        # Predictions from the first few rows may be so bad that they would flatten the rest.
        figure.y_range.update(start=0.0, end=1.3 * float(known[1:].max()))
    return figure


def _draw_effects(found: Sequence[Line], unit: str) -> Any:
    """Draw effects with their intervals, the largest on top."""
    has_ends = bool(found) and found[0].low == found[0].low
    ends = {"from": "@low{0.[0000]a}", "to": "@high{0.[0000]a}"} if has_ends else {}
    # By place, since names may be the same once they are truncated.
    names = {-place: _drawn(each.feature) for place, each in enumerate(found)}
    columns = {
        **{name: [getattr(each, name) for each in found] for name in ("weight", "low", "high")},
        "place": [*names],
        "feature": [*names.values()],
        "colour": [GREY if each.may_be_zero else BLUE for each in found],
        "filled": [0.0 if each.may_be_zero else 1.0 for each in found],
    }
    figure, source = _figure(
        columns,
        {"feature": "@feature", "effect": "@weight{0.[0000]a}", **ends},
        height=80 + 20 * len(found),
        x_axis_label=f"change of {_drawn(unit)} per standard deviation",
    )
    figure.yaxis.update(ticker=[*names], major_label_overrides=names)
    style = {"source": source, "color": "colour", "width": 2}
    if has_ends:
        figure.segment("low", "place", "high", "place", **style)
    figure.scatter("weight", "place", fill_alpha="filled", size=9, **style)
    figure.vspan([0.0], color=GREY)
    return figure


def _draw_correlation(found: Correlation) -> Any:
    """Draw the correlation profile."""
    low = np.maximum(found.ratios - found.errors, 0.1 * found.ratios)
    high = found.ratios + found.errors
    figure, source = _figure(
        {"length": found.lengths, "ratio": found.ratios, "low": low, "high": high},
        {"rows per block": "@length{0,0}", "inflation": "@ratio{0.[00]a}"},
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label="rows per block",
        y_axis_label="variance inflation",
    )
    for axis in figure.axis:
        axis.formatter = require("bokeh.models").NumeralTickFormatter(format="0,0.[00]")
    figure.segment("length", "low", "length", "high", source=source, color=BLUE, width=2)
    figure.line("length", "ratio", source=source, color=BLUE, width=2)
    figure.scatter("length", "ratio", source=source, color=BLUE, size=7)
    figure.hspan([1.0], color=GREY)
    if found.scale > 1:
        figure.vspan([found.scale], **DASHED)
    return figure


def _over_time(found: Course, label: str, hover: Mapping[str, str]) -> tuple[Any, Any]:
    """Return an empty figure over time or rows, and the data of the course."""
    when = {"when": "@x{%F %H:%M}"} if found.dated else {"from row": "@x{0,0}"}
    figure, source = _figure(
        found.columns,
        {**when, **hover},
        x_axis_type="datetime" if found.dated else "linear",
        x_axis_label="" if found.dated else "row",
        y_axis_label=_drawn(label),
    )
    figure.xaxis.ticker.desired_num_ticks = 4
    if not found.dated:
        figure.xaxis.formatter = require("bokeh.models").NumeralTickFormatter(format="0,0")
    return figure, source


def _figure(columns: Mapping[str, Any], hover: Mapping[str, str], **style: Any) -> tuple[Any, Any]:
    """Return an empty figure that shows these values of a point, and the data of its points."""
    figure = require("bokeh.plotting").figure(**STYLE | style)
    formatters = {"@x": "datetime"} if "when" in hover else {}
    tool = require("bokeh.models").HoverTool(tooltips=[*hover.items()], formatters=formatters)
    figure.add_tools(tool)
    figure.toolbar.logo = None
    return figure, require("bokeh.plotting").ColumnDataSource(dict(columns))


def _drawn(text: str) -> str:
    """Return a text for a figure, where dollars and backslashes would begin a formula."""
    return shortened(text, DRAWN).replace("$", "＄").replace("\\", "＼")


def shortened(text: str, most: int = 80) -> str:
    """Return a text with unprintable characters escaped, truncated if it is long.

    Examples
    --------
    >>> shortened("temperature", 8)
    'tempera…'
    """
    text = literal(text)
    return text if len(text) <= most else text[: most - 1] + "…"
