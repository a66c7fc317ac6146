"""The report of a fit as one page for a browser, with everything that it needs inside."""

import html
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import mixfree
from mixfree.base.arithmetic import Array
from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.streams.correlation import Correlation
from mixfree.streams.facts import fit_facts
from mixfree.streams.metrics import metrics, shown
from mixfree.streams.report import measured
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.views import Cells, Course, by_time, course, effects, summary
from mixfree.streams.weights import Weight, weights_of

__all__ = ["page", "write_page"]

EFFECTS = 30  # features in the picture of the weights
LISTED = 300  # columns, weights or files in a table
LONGEST = 80  # letters of a name that are shown
DRAWN = 28  # letters of a name in a picture, which has to fit on a telephone
HEIGHT = 300
# Legible on white and on black, and told apart by colour-blind readers.
BLUE, ORANGE, GREY = "#2f86c9", "#d9731a", "#8a8a8a"

Words = Callable[[str], str]


def write_page(
    fit: StreamFit, path: str | os.PathLike[str], words: Words = str, command: str | None = None
) -> int:
    """Write the report of a fit as one page for a browser, which needs no network.

    Parameters
    ----------
    fit
        From a model file or just fitted.
    path
        The HTML file, written in one piece.
    words, command
        As :func:`page` takes them.

    Returns
    -------
    The size of the page in bytes, at most about 2 MB.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mixfree.streams import FitPlan, Source, StreamFit, find_files
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "log.csv").write_text("x,load\\n" + "1,2.5\\n2,4.7\\n3,6.4\\n" * 500)
    >>> source = Source(find_files([str(folder / "log.csv")]))
    >>> fit = StreamFit.begin(source, FitPlan("load"))
    >>> fit.run(source.pieces())
    >>> write_page(fit, folder / "report.html") < 2_000_000
    True
    """
    content = page(fit, words, command).encode()
    with replacing(path) as file:
        file.write(content)
    return len(content)


def page(fit: StreamFit, words: Words = str, command: str | None = None) -> str:
    """The report as HTML, which needs nothing from a network.

    Parameters
    ----------
    fit
        From a model file or just fitted.
    words
        Turns sentences that name arguments into those of whoever shows them.
    command
        What to type to make the model again; None: the call in Python.
    """
    facts = fit_facts(fit)
    pictures: dict[str, Any] = {}
    sections = [
        _section("summary", "Summary", _summary(fit, facts, words)),
        _section("predicted", "Predicted and actual", _predicted(fit, pictures)),
        _section("loss", "Error over time", _error(fit, pictures)),
        _section("weights", "Weights", _weights(fit, pictures)),
        _section("correlation", "Correlation", _correlation(fit, pictures)),
        _section("residuals", "Errors by hour and weekday", _residuals(fit, pictures)),
        _section("columns", "Columns", _columns(fit)),
        _section("reproduce", "How to make it again", _reproduce(fit, command)),
    ]
    title = f"mixfree: {_short(fit.encoder.target)}"
    body = "\n".join(filter(None, sections))
    script = ""
    if pictures:
        script, parts = require("bokeh.embed").components(pictures)
        for name, part in parts.items():
            body = body.replace(_place(name), part)
    resources = require("bokeh.resources").Resources(mode="inline", components=["bokeh"])
    return _PAGE.format(
        title=_text(title),
        style=_STYLE,
        library=resources.render_js() if pictures else "",
        heading=_text(f"What was learnt about {_short(fit.encoder.target)!r}"),
        body=body,
        script=script,
        paint=_PAINT if pictures else "",
    )


def _section(name: str, title: str, content: Iterable[str]) -> str:
    inside = "\n".join(content)
    return f'<section id="{name}"><h2>{title}</h2>\n{inside}\n</section>' if inside else ""


def _summary(fit: StreamFit, facts: Mapping[str, Any], words: Words) -> Iterator[str]:
    said = " ".join(summary(fit))
    correlation = Correlation.of_learner(fit.learner)
    verdict = [] if correlation is None else [*correlation.lines()]
    yield f"<p>{_text(said)}</p>"
    if not fit.complete:
        yield "<p class=warning>The fit was stopped: this is what was read until then.</p>"
    for sentence in facts["warnings"]:
        yield f"<p class=warning>Warning: {_text(words(sentence))}.</p>"
    found = metrics(fit)
    table = {what: shown(fit, of) for what, of in found.items()}
    head = ["", *next(iter(table.values()))]
    yield _table(head, [[measured(fit, what), *row.values()] for what, row in table.items()])
    notes = [*verdict, *facts["notes"]]
    left_out = facts["rows"]["left_out"]
    notes += [f"{each['rows']:,} rows were left out: {each['reason']}" for each in left_out]
    yield "<ul>" + "".join(f"<li>{_text(words(note))}</li>" for note in notes) + "</ul>"


def _predicted(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = course(fit)
    if not len(found.x):
        return
    figure, source = _course_figure(found, found.of)
    ranged = bool((found.low < found.high).any())
    if ranged:
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
    pictures["predicted"] = figure
    ahead = "each row predicted before it was learnt" if fit.timeline.tested else "not predicted"
    yield _figure(
        "predicted",
        f"{_short(found.of)}: means of {len(found.x):,} stretches of up to "
        f"{fit.timeline.per_bin:,} rows{', with the range' if ranged else ''}; {ahead}. "
        "Drag to move, click on the legend to hide a line.",
    )


def _error(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = course(fit)
    if not fit.timeline.tested:
        yield "<p>No row was predicted before it was learnt: the first 1,000 are not, nor are "
        yield "those of a fit that was spread over workers.</p>"
        return
    figure, source = _course_figure(found, found.error_name)
    figure.line("x", "error", source=source, color=BLUE, width=2)
    figure.scatter("x", "error", source=source, color=BLUE, size=4)
    _hover(figure, [_when(found), (found.error_name, "@error{0.[000]a}")], found)
    models = require("bokeh.models")
    for jump in found.jumps:
        line = models.Span(location=found.x[jump.at], dimension="height", line_dash="dashed")
        line.update(line_color=ORANGE, line_width=1.5)
        figure.add_layout(line)
    pictures["loss"] = figure
    yield _figure(
        "loss",
        f"Test-then-train {found.error_name} of each stretch, lower is better; dashed where it "
        "jumps.",
    )
    if found.jumps:
        said = (jump.sentence(found.error_name) for jump in found.jumps)
        yield "<ul>" + "".join(f"<li>{_text(each)}</li>" for each in said) + "</ul>"
    else:
        yield "<p>It jumps nowhere.</p>"


def _weights(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found, every = effects(fit, EFFECTS), weights_of(fit)
    plotting = require("bokeh.plotting")
    names = _different([_drawn(each.name) for each in found])
    unit = fit.encoder.target if fit.encoder.classes is None else "log-odds"
    figure = plotting.figure(
        **_SIZE | {"height": 80 + 20 * len(names)},
        y_range=names[::-1],
        x_axis_label=f"change of {_drawn(unit)} per standard deviation",
    )
    has_ends = bool(found) and found[0].low == found[0].low
    for hollow, colour in ((False, BLUE), (True, GREY)):
        chosen = [(name, each) for name, each in zip(names, found, strict=True)]
        chosen = [pair for pair in chosen if pair[1].may_be_zero == hollow]
        data = {
            "name": [name for name, _ in chosen],
            "effect": [each.effect for _, each in chosen],
            "low": [each.low for _, each in chosen],
            "high": [each.high for _, each in chosen],
        }
        if not chosen:
            continue
        source = plotting.ColumnDataSource(data)
        if has_ends:
            figure.segment("low", "name", "high", "name", source=source, color=colour, width=2)
        fill = None if hollow else colour
        figure.scatter(
            "effect", "name", source=source, size=9, line_color=colour, fill_color=fill, width=2
        )
    _vertical(figure, 0.0)
    ends = [("from", "@low{0.[0000]a}"), ("to", "@high{0.[0000]a}")] if has_ends else []
    _hover(figure, [("feature", "@name"), ("effect", "@effect{0.[0000]a}"), *ends], None)
    pictures["weights"] = figure
    intervals = (
        "with 95 % intervals that know about the correlation of the rows; grey and hollow: the "
        "interval contains 0"
        if has_ends
        else "without intervals, which exact fits have"
    )
    yield _figure("weights", f"The {len(names)} largest effects, {intervals}.")
    yield "<details><summary>All weights, in the units of the data</summary>"
    yield _table(
        ["feature", "class", "weight", "standard error", "95 % interval", ""],
        map(_weight_row, every[:LISTED]),
        len(every) - LISTED,
    )
    yield "</details>"


def _weight_row(each: Weight) -> list[str]:
    ends = "" if each.low != each.low else f"{each.low:.4g} … {each.high:.4g}"
    error = "" if each.std_error != each.std_error else f"{each.std_error:.3g}"
    zero = "contains 0" if each.may_be_zero else ""
    return [each.feature, each.label or "", f"{each.weight:.5g}", error, ends, zero]


def _correlation(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = Correlation.of_learner(fit.learner)
    if found is None or found.ratios.size < 2:
        yield "<p>Too few rows, or a fit that forgets: there is no profile.</p>"
        return
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
    first = next(found.lines())
    figure = plotting.figure(
        **_SIZE,
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label="rows per block",
        y_axis_label="variance inflation",
        title=first,
    )
    figure.title.text_font_size = "11px"
    for axis in figure.axis:
        axis.formatter = models.NumeralTickFormatter(format="0,0.[00]")
    figure.segment("length", "low", "length", "high", source=source, color=BLUE, width=2)
    figure.line("length", "ratio", source=source, color=BLUE, width=2)
    figure.scatter("length", "ratio", source=source, color=BLUE, size=7)
    figure.add_layout(models.Span(location=1.0, dimension="width", line_color=GREY))
    if found.correlated:
        line = models.Span(location=max(found.scale, 1), dimension="height", line_dash="dashed")
        line.update(line_color=ORANGE, line_width=1.5)
        figure.add_layout(line)
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
    pictures["correlation"] = figure
    yield _figure(
        "correlation",
        "Variance of sums of gradients over blocks of rows, relative to independent rows, which "
        "have 1; dashed: over how many rows gradients stay correlated.",
    )


def _residuals(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = by_time(fit)
    if not found:
        return
    yield "<div class=pair>"
    for name, cells in found.items():
        pictures[name] = _cells_figure(name, cells)
        yield _figure(
            name,
            f"Mean of actual minus predicted by {name}, with one standard error if the rows were "
            "independent; above 0 the model predicts too little.",
        )
    yield "</div>"


def _cells_figure(name: str, cells: Cells) -> Any:
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
    figure.add_layout(
        require("bokeh.models").Span(location=0.0, dimension="width", line_color=GREY)
    )
    _hover(figure, [(name, "@label"), ("mean error", "@mean{0.[000]a}")], None)
    return figure


def _columns(fit: StreamFit) -> Iterator[str]:
    rows = [
        [column.name, column.kind, _features(column.features)] for column in fit.encoder.columns
    ]
    rows += [[name, "left out", why] for name, why in fit.unused_columns.items()]
    target = "target" if fit.encoder.classes is None else "target, classes"
    listed = "" if fit.encoder.classes is None else ", ".join(fit.encoder.classes)
    rows.insert(0, [fit.encoder.target, target, _cut(listed, 2 * LONGEST)])
    yield _table(["column", "kind", "what became of it"], rows[:LISTED], len(rows) - LISTED)


def _features(names: Sequence[str]) -> str:
    if len(names) == 1:
        return "1 feature"
    return f"{len(names)} features: {_cut(', '.join(names), 2 * LONGEST)}"


def _reproduce(fit: StreamFit, command: str | None) -> Iterator[str]:
    files = fit.read_record.files
    listed = ", ".join(repr(file.name) for file in files[:LISTED])
    call = (
        command or f"StreamFit.begin(Source(find_files([{listed}])), FitPlan({fit.plan.written()}))"
    )
    yield f"<pre>{_text(call)}</pre>"
    yield _table(
        ["file", "rows read"],
        [[file.name, f"{file.rows:,}"] for file in files[:LISTED]],
        len(files) - LISTED,
    )
    rate = f"{fit.read / fit.seconds:,.0f} rows per second" if fit.seconds > 0 else "at once"
    yield (
        f"<p>mixfree {_text(mixfree.__version__)}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}; method {_text(fit.learner.method)}, {fit.plan.loss} loss; "
        f"{rate}. The same rows in the same order give the same model, bit for bit.</p>"
    )


_SIZE = {
    "height": HEIGHT,
    "sizing_mode": "stretch_width",
    "tools": "pan,box_zoom,wheel_zoom,reset,save",
    "output_backend": "canvas",
    "background_fill_alpha": 0.0,
    "border_fill_alpha": 0.0,
    "outline_line_color": None,
}


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
    source = plotting.ColumnDataSource({name: _numbers(getattr(found, name)) for name in columns})
    return figure, source


def _numbers(values: Array) -> Array:
    return np.asarray(values, dtype=np.float64)


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


def _vertical(figure: Any, at: float) -> None:
    line = require("bokeh.models").Span(location=at, dimension="height", line_color=GREY)
    figure.add_layout(line)


def _place(name: str) -> str:
    return f"<!--picture {name}-->"


def _figure(name: str, caption: str) -> str:
    return f"<figure>{_place(name)}<figcaption>{_text(caption)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], more: int = 0) -> str:
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = (
        "<tr>" + "".join(f"<td>{_text(_short(cell, 2 * LONGEST))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class=wide>{table}</div>{rest}"


def _text(text: str) -> str:
    """A text of the data that cannot become a part of the page.

    Examples
    --------
    >>> _text("<b>'")
    '&lt;b&gt;&#x27;'
    """
    return html.escape(text)


def _drawn(text: str) -> str:
    """A text of the data for a picture, where dollars and backslashes would begin a formula."""
    return _short(text, DRAWN).replace("$", "＄").replace("\\", "＼")


def _short(text: str, most: int = LONGEST) -> str:
    return _cut("".join(each if each.isprintable() else "�" for each in text), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _different(names: Iterable[str]) -> list[str]:
    """Names with a number where two of them were cut to the same."""
    found: dict[str, None] = {}
    for name in names:
        number, one = 2, name
        while one in found:
            one, number = f"{name} ({number})", number + 1
        found[one] = None
    return list(found)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
{library}
</head>
<body>
<main>
<h1>{heading}</h1>
{body}
</main>
{script}
{paint}
</body>
</html>
"""
_STYLE = """
:root { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: #d9dee3; --warn: #9a3d00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a5adb6; --paper: #14171a; --line: #343a41; --warn: #ffab70; }
}
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
figure { margin: .5rem 0; min-width: 0; }
figcaption { color: var(--soft); font-size: .87rem; }
p, li { overflow-wrap: anywhere; }
.warning { color: var(--warn); font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td { overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
td:first-child { min-width: 9rem; max-width: 26rem; }
pre { border: 1px solid var(--line); border-radius: 4px; padding: .7rem; overflow-x: auto; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 1rem; }
summary { cursor: pointer; color: var(--soft); }
"""
# The pictures are drawn on canvases, which know nothing of the page's colours.
_PAINT = """<script>
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
    for (const drawn of Bokeh.documents) for (const figure of drawn.roots()) {
      figure.title.text_color = ink;
      for (const side of [figure.below, figure.left]) for (const axis of side) {
        axis.axis_label_text_color = ink;
        axis.major_label_text_color = ink;
        axis.axis_line_color = line;
        axis.major_tick_line_color = line;
        axis.minor_tick_line_color = null;
      }
      for (const each of figure.center) if ("grid_line_color" in each) each.grid_line_color = line;
      for (const each of figure.above) if ("label_text_color" in each) each.label_text_color = ink;
    }
    document.documentElement.dataset.painted = dark.matches ? "dark" : "light";
  }
  function wait() {
    const all = document.querySelectorAll("figure").length;
    const there = Bokeh.documents.reduce((count, each) => count + each.roots().length, 0);
    if (there < all) setTimeout(wait, 30); else paint();
  }
  dark.addEventListener("change", paint);
  wait();
})();
</script>"""
