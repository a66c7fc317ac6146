"""The table of a fit: its weights with standard errors, t, p and intervals."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixfree.linear.exact.batch_means import Wald
from mixfree.linear.exact_learner import ExactLearner, knows_intervals
from mixfree.linear.losses import Squared

__all__ = ["Line", "Summary", "lines_of", "summary_of"]

MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LEGEND = "* p < 0.05, ** p < 0.01, *** p < 0.001"


class Line(NamedTuple):
    """A weight in the units of the data; its other numbers are NaN if the method has none.

    ``label`` is the class it belongs to, None if there is only one output.
    """

    feature: str
    label: str | None
    weight: float
    std_error: float
    t: float
    p: float
    low: float
    high: float

    @property
    def may_be_zero(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0.0 <= self.high


@dataclass(frozen=True)
class Summary:
    """The table of a fit, which prints as text, and as HTML in a notebook.

    Attributes
    ----------
    facts
        What is known of the whole fit, by name.
    lines
        The weights, per output.
    tests
        Joint tests by name.
    remark
        Why intervals, or some of them, cannot be trusted or are missing.
    level
        Level of the intervals.
    marked
        Whether small p-values have stars: not if the stream is too short for its correlation.
    """

    facts: Mapping[str, str]
    lines: Sequence[Line]
    tests: Mapping[str, Wald]
    remark: str
    level: float
    marked: bool = True

    @property
    def _head(self) -> list[str]:
        if not self._with_errors:
            return ["", "weight"]
        return ["", "weight", "std. error", "t", "p", f"{100 * self.level:g} % interval", "", ""]

    @property
    def _with_errors(self) -> bool:
        return not all(math.isnan(line.std_error) for line in self.lines)

    def cells(self) -> list[list[str]]:
        """Return the lines as texts; a line with only a first cell names a class."""
        found, label = list[list[str]](), None
        for line in self.lines:
            if line.label != label:
                found.append([f"class {line.label}"])
                label = line.label
            found.append([line.feature, *_numbers(line), mark(line.p) if self.marked else ""])
        return [row[: len(self._head)] for row in found]

    def __str__(self) -> str:
        name = max(map(len, self.facts))
        facts = [f"{fact:{name}}  {value}" for fact, value in self.facts.items()]
        return "\n".join([*facts, "", *self.table(), "", *self.notes])

    def table(self) -> list[str]:
        """Return the weights as lines of text."""
        rows, found = [self._head, *self.cells()], []
        widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(len(rows[0]))]
        for row in rows:
            rest = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=False)]
            found.append("  ".join([f"{row[0]:{widths[0]}}", *rest]).rstrip())
        return found

    @property
    def notes(self) -> list[str]:
        """Joint tests, and the meaning of the marks or why there are none."""
        found = [
            f"{name}: F({test.weights}, {test.freedom}) = {test.statistic:.4g}, "
            f"p {'' if test.p_value < 0.0001 else '= '}{_p(test.p_value)}"
            for name, test in self.tests.items()
        ]
        legend = [LEGEND] if self.marked and self._with_errors else []
        return [*found, *legend, *([self.remark] if self.remark else [])]

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self.facts.items()
        )
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self._head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.cells()
        )
        notes = "<br>".join(map(html.escape, self.notes))
        return f"<table>{facts}</table><table><tr>{head}</tr>{rows}</table><p>{notes}</p>"


def lines_of(
    learner: Any, names: Sequence[str], labels: Sequence[Any], alpha: float = 0.05
) -> list[Line]:
    """Return all weights per output, the intercept last; ``labels`` are the classes."""
    weights = np.asarray(learner.weights)
    each = [*names, "intercept"][: weights.shape[1]]
    errors, p = np.full(weights.shape, math.nan), np.full(weights.shape, math.nan)
    ends = np.full((*weights.shape, 2), math.nan)
    if knows_intervals(learner):
        inference = learner.inference
        errors, ends, p = inference.bse, inference.conf_int(alpha), inference.p_values
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = weights / errors
    found = labels if len(weights) > 1 else [None]
    return [
        Line(
            name,
            None if label is None else str(label),
            *map(float, (weights[i, k], errors[i, k], ratio[i, k], p[i, k], *ends[i, k])),
        )
        for i, label in enumerate(found)
        for k, name in enumerate(each)
    ]


def summary_of(
    learner: ExactLearner,
    names: Sequence[str],
    labels: Sequence[Any] = (),
    groups: Mapping[str, Sequence[int]] | None = None,
    alpha: float = 0.05,
) -> Summary:
    """Make the table of an exact fit.

    Parameters
    ----------
    learner
        The exact learner.
    names, labels
        Names of the features, and of the outputs if there are several.
    groups
        Places of features that are tested together, by the name of the test.
    alpha
        1 − the level of the intervals.
    """
    with_errors = knows_intervals(learner)
    facts = {"rows": f"{learner.samples:,}"}
    if with_errors and not math.isnan(effective := learner.inference.effective_rows):
        facts["effective rows"] = f"{effective:,.0f}"
    facts["loss"] = type(learner.loss).__name__.lower()
    if (explained := learner.explained) is not None:
        name = "R²" if isinstance(learner.loss, Squared) else "pseudo-R²"
        facts[name] = f"{explained:.4f}"
    facts["errors"] = learner.inference.assumed if with_errors else "none with a half-life"
    tests = {
        name: learner.inference.wald(places)
        for name, places in (groups or {}).items()
        if with_errors
    }
    remark = learner.inference.remark if with_errors else "no intervals with a half-life"
    lines = lines_of(learner, names, labels, alpha)
    marked = with_errors and learner.inference.trusted
    return Summary(facts, lines, tests, remark, 1.0 - alpha, marked)


def mark(p: float) -> str:
    """Return stars for a small p-value.

    Examples
    --------
    >>> mark(0.003), mark(0.2)
    ('**', '')
    """
    return next((stars for limit, stars in MARKS if p < limit), "")


def _p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _numbers(line: Line) -> list[str]:
    if math.isinf(line.std_error):
        return [f"{line.weight:.5g}", "no interval", "", "", "", ""]
    if math.isnan(line.std_error):
        return [f"{line.weight:.5g}", "", "", "", "", ""]
    t = f"{line.t:.2f}" if abs(line.t) < 1e5 else f"{line.t:.2g}"
    ends = f"{line.low:.5g}", f"{line.high:.5g}"
    return [f"{line.weight:.5g}", f"{line.std_error:.4g}", t, _p(line.p), *ends]
