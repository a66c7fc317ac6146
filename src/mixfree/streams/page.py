"""The report of a fit as a self-contained HTML page."""

import html
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

import mixfree
from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.base.literal import literal
from mixfree.streams.correlation import Correlation, is_only_rounding
from mixfree.streams.facts import fit_facts
from mixfree.streams.interactive import (
    LONGEST,
    cells_picture,
    correlation_picture,
    course_picture,
    cut,
    effects_picture,
    error_picture,
    shortened,
)
from mixfree.streams.metrics import quality
from mixfree.streams.page_frame import PAGE, PAINT, STYLE
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.views import by_time, course, effects, summary
from mixfree.streams.weights import Weight, weights_of

__all__ = ["page", "write_page"]

EFFECTS = 30  # most features in the figure of the weights
LISTED = 300  # most columns, weights or files in a table
Words = Callable[[str], str]


def write_page(
    fit: StreamFit, path: str | os.PathLike[str], words: Words = str, command: str | None = None
) -> int:
    """Write the report of a fit as a self-contained HTML page.

    Parameters
    ----------
    fit
        From a model file or just fitted.
    path
        The HTML file, written atomically.
    words, command
        See :func:`page`.

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
    """Return the report as HTML, which needs no network.

    Parameters
    ----------
    fit
        From a model file or just fitted.
    words
        Rewrites sentences that name arguments, for example with flags of the command line.
    command
        Shell command that reproduces the model.
    """
    if not fit.used:
        raise ValueError("the fit has learnt from no rows: there is nothing to report")
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
        _section("reproduce", "How to reproduce", _reproduce(fit, command)),
    ]
    title = f"mixfree: {shortened(fit.encoder.target)}"
    body = "\n".join(filter(None, sections))
    script = ""
    if pictures:
        script, parts = require("bokeh.embed").components(pictures)
        for name, part in parts.items():
            body = body.replace(_place(name), part)
    resources = require("bokeh.resources").Resources(mode="inline", components=["bokeh"])
    return PAGE.format(
        title=_text(title),
        style=STYLE,
        library=resources.render_js() if pictures else "",
        heading=_text(f"What was learnt about {shortened(fit.encoder.target)!r}"),
        body=body,
        script=script,
        paint=PAINT if pictures else "",
    )


def _section(name: str, title: str, content: Iterable[str]) -> str:
    inside = "\n".join(content)
    return f'<section id="{name}"><h2>{title}</h2>\n{inside}\n</section>' if inside else ""


def _summary(fit: StreamFit, facts: Mapping[str, Any], words: Words) -> Iterator[str]:
    correlation = Correlation.of_fit(fit)
    verdict = [] if correlation is None else [*correlation.lines()]
    yield f"<p>{_text(' '.join(summary(fit)))}</p>"
    if not fit.complete:
        yield "<p class=warning>The fit was stopped: the report covers the rows read so far.</p>"
    for sentence in facts["warnings"]:
        yield f"<p class=warning>Warning: {_unbroken(words(sentence))}.</p>"
    for rows, lines in quality(fit):
        head = [rows, *next(iter(lines.values()), {})]
        yield _table(head, [[words(model), *row.values()] for model, row in lines.items()])
    notes = [*verdict, *facts["notes"]]
    left_out = facts["rows"]["left_out"]
    notes += [f"{each['rows']:,} rows were left out: {each['reason']}" for each in left_out]
    yield "<ul>" + "".join(f"<li>{_unbroken(words(note))}</li>" for note in notes) + "</ul>"


def _predicted(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = course(fit)
    pictures["predicted"] = course_picture(found)
    ranged = bool((found.low < found.high).any())
    ahead = "each row predicted before it was learnt" if fit.timeline.tested else "not predicted"
    yield _figure(
        "predicted",
        f"{shortened(found.of)}: means of {len(found.x):,} bins of up to "
        f"{fit.timeline.per_bin:,} rows{', with the range' if ranged else ''}; {ahead}. "
        "Drag to pan, click on the legend to hide a line.",
    )


def _error(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = course(fit)
    if not fit.timeline.tested:
        yield "<p>No row was predicted before it was learnt: the first 1,000 rows are not, nor "
        yield "are the rows of a fit spread over workers.</p>"
        return
    pictures["loss"] = error_picture(found)
    yield _figure(
        "loss",
        f"Test-then-train {found.error_name} per bin, lower is better; dashed lines: jumps.",
    )
    if found.jumps:
        sentences = (jump.sentence(found.error_name) for jump in found.jumps)
        yield "<ul>" + "".join(f"<li>{_text(each)}</li>" for each in sentences) + "</ul>"
    else:
        yield "<p>No jump was found.</p>"


def _weights(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found, every = effects(fit, EFFECTS), weights_of(fit)
    unit = fit.encoder.target if fit.encoder.classes is None else "log-odds"
    pictures["weights"] = effects_picture(found, unit)
    has_ends = bool(found) and found[0].low == found[0].low
    intervals = (
        "with 95 % intervals that account for the correlation of the rows; grey and hollow: the "
        "interval contains 0"
        if has_ends
        else "without intervals, which only exact fits have"
    )
    yield _figure("weights", f"The {len(found)} largest effects, {intervals}.")
    yield "<details><summary>All weights, in the units of the data</summary>"
    yield _table(
        ["feature", "class", "weight", "standard error", "95 % interval", ""],
        map(_weight_row, every[:LISTED]),
        len(every) - LISTED,
    )
    yield "</details>"


def _weight_row(each: Weight) -> list[str]:
    ends = f"{each.low:.4g} … {each.high:.4g}" if isfinite(each.high - each.low) else ""
    error = f"{each.std_error:.3g}" if isfinite(each.std_error) else ""
    zero = "contains 0" if ends and each.may_be_zero else ""
    return [each.feature, each.label or "", f"{each.weight:.5g}", error, ends, zero]


_NO_PROFILE = "Too few rows, or a fit with forgetting"


def _correlation(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = Correlation.of_fit(fit)
    if found is None or found.ratios.size < 2:
        why = "The model fits every row up to rounding" if is_only_rounding(fit) else _NO_PROFILE
        yield f"<p>{why}: there is no profile.</p>"
        return
    pictures["correlation"] = correlation_picture(found)
    yield _figure(
        "correlation",
        "Variance of sums of gradients over blocks of rows, relative to independent rows (1); "
        "dashed: the number of rows over which gradients stay correlated.",
    )


def _residuals(fit: StreamFit, pictures: dict[str, Any]) -> Iterator[str]:
    found = by_time(fit)
    if not found:
        return
    yield "<div class=pair>"
    for name, cells in found.items():
        pictures[name] = cells_picture(name, cells)
        yield _figure(
            name,
            f"Mean of actual minus predicted by {name}, with one standard error of independent "
            "rows; above 0, predictions are too low.",
        )
    yield "</div>"


def _columns(fit: StreamFit) -> Iterator[str]:
    rows = [
        [column.name, column.kind, _features(column.features)] for column in fit.encoder.columns
    ]
    rows += [[name, "left out", why] for name, why in fit.unused_columns.items()]
    target = "target" if fit.encoder.classes is None else "target, classes"
    listed = "" if fit.encoder.classes is None else ", ".join(fit.encoder.classes)
    rows.insert(0, [fit.encoder.target, target, cut(listed, 2 * LONGEST)])
    yield _table(["column", "kind", "features"], rows[:LISTED], len(rows) - LISTED)


def _features(names: Sequence[str]) -> str:
    if len(names) == 1:
        return "1 feature"
    return f"{len(names)} features: {cut(', '.join(names), 2 * LONGEST)}"


def _reproduce(fit: StreamFit, command: str | None) -> Iterator[str]:
    files = fit.read_record.files
    if command is not None:
        yield f"<pre>{_text(command)}</pre>"
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


def _place(name: str) -> str:
    return f"<!--picture {name}-->"


def _figure(name: str, caption: str) -> str:
    return f"<figure>{_place(name)}<figcaption>{_text(caption)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], more: int = 0) -> str:
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = (
        "<tr>"
        + "".join(f"<td>{_unbroken(shortened(cell, 2 * LONGEST))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class=wide>{table}</div>{rest}"


def _unbroken(text: str) -> str:
    """Escape a text, without line breaks at the hyphens of flags and exponents.

    Examples
    --------
    >>> _unbroken("give --leave-out a")
    'give <span>--leave-out</span> a'
    """
    return re.sub(r"(?<!\S)--\w[\w-]*|\d[.\d]*e-\d+", r"<span>\g<0></span>", _text(text))


def _text(text: str) -> str:
    """Escape a text of the data, so that it cannot alter the page.

    Examples
    --------
    >>> _text("<b>'")
    '&lt;b&gt;&#x27;'
    """
    return html.escape(literal(text))
