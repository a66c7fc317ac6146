"""The table of a fit: its weights with standard errors, t, p and intervals."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixfree.linear.exact.batch_means import Wald
from mixfree.linear.exact_learner import ExactLearner, knows_intervals
from mixfree.linear.losses import Poisson, Squared

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
    """The table of a fit, which prints as text, and as HTML in a notebook."""

    facts: Mapping[str, str]  # what is known of the whole fit, by name
    lines: Sequence[Line]  # the weights, per output
    tests: Mapping[str, Wald]  # joint tests by name
    remark: str  # why intervals, or some of them, cannot be trusted or are missing
    level: float  # of the intervals
    marked: bool = True  # whether small p-values have stars: not if the stream is too short

    @property
    def _with_errors(self) -> bool:
        return not all(math.isnan(line.std_error) for line in self.lines)

    @property
    def head(self) -> list[str]:
        """Names of the columns; those of the weights and of the end of the interval are empty."""
        ends = ["std. error", "t", "p", f"{100 * self.level:g} % interval", "", ""]
        return ["", "weight", *(ends if self._with_errors else [])]

    def cells(self) -> list[list[str]]:
        """Return the lines as texts; a line with only a first cell names a class."""
        found, label = list[list[str]](), None
        for line in self.lines:
            if line.label != label:
                found.append([f"class {line.label}"])
                label = line.label
            found.append([line.feature, *_numbers(line), mark(line.p) if self.marked else ""])
        return [row[: len(self.head)] for row in found]

    def __str__(self) -> str:
        return "\n".join(self.text())

    def text(self) -> list[str]:
        """Return the lines of the table as printed."""
        name = max(map(len, self.facts))
        facts = [f"{fact:{name}}  {value}" for fact, value in self.facts.items()]
        return [*facts, "", *self._table(), "", *self.notes]

    def _table(self) -> list[str]:
        rows = [self.head, *self.cells()]
        width = [max(len(row[k]) for row in rows if k < len(row)) for k in range(len(rows[0]))]
        return [
            "  ".join(f"{cell:{'>' if k else ''}{width[k]}}" for k, cell in enumerate(row)).rstrip()
            for row in rows
        ]

    @property
    def notes(self) -> list[str]:
        """Joint tests, and the meaning of the marks or why there are none."""
        found = [
            f"{name}: F({test.weights}, {test.freedom}) = {test.statistic:.4g}, "
            f"p {'' if test.p_value < 0.0001 else '= '}{_p(test.p_value)}"
            for name, test in self.tests.items()
            if not math.isnan(test.p_value)  # more weights than batches
        ]
        legend = [LEGEND] if self.marked and self._with_errors else []
        return [*found, *legend, *([self.remark] if self.remark else [])]

    def _repr_html_(self) -> str:
        def row(cells: Iterable[str], tag: str = "td") -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        facts, lines = (map(row, rows) for rows in (self.facts.items(), self.cells()))
        tables = "".join(facts), row(self.head, "th") + "".join(lines)
        notes = "<br>".join(map(html.escape, self.notes))
        return "".join(f"<table>{table}</table>" for table in tables) + f"<p>{notes}</p>"


def lines_of(
    learner: Any, names: Sequence[str], labels: Sequence[Any], alpha: float = 0.05
) -> list[Line]:
    """Return all weights per output, the intercept last; ``labels`` are the classes."""
    weights = np.asarray(learner.weights)
    numbers = np.full((*weights.shape, 6), math.nan)  # of a line: weight, error, t, p and interval
    numbers[:, :, 0] = weights
    if knows_intervals(learner):
        inference = learner.inference
        numbers[:, :, 1], numbers[:, :, 3] = inference.bse, inference.p_values
        numbers[:, :, 4:] = inference.conf_int(alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers[:, :, 2] = weights / inference.bse
    found = [str(label) for label in labels] if len(weights) > 1 else [None]
    return [
        Line(name, label, *each)
        for label, output in zip(found, numbers.tolist(), strict=True)
        for name, each in zip([*names, "intercept"], output, strict=False)
    ]


def summary_of(
    learner: ExactLearner,
    names: Sequence[str],
    labels: Sequence[Any] = (),
    groups: Mapping[str, Sequence[int]] | None = None,
    alpha: float = 0.05,
) -> Summary:
    """Make the table of an exact fit.

    ``names`` are those of the features, ``labels`` those of the classes, and ``groups`` the
    places of features that are tested together, by the name of the test.
    """
    inference = learner.inference if knows_intervals(learner) else None
    facts = {"rows": f"{learner.samples:,}"}
    if inference is not None and not math.isnan(effective := inference.effective_rows):
        facts["effective rows"] = f"{effective:,.0f}"
    facts["loss"] = type(learner.loss).__name__.lower()
    if learner.loss.outputs > 1:
        facts["weights"] = "log-odds of each class, relative to the mean of all"
    elif len(labels) == 2:
        facts["weights"] = f"log-odds of {labels[1]} against {labels[0]}"
    elif isinstance(learner.loss, Poisson):
        facts["weights"] = "logarithm of the mean"
    if (explained := learner.explained) is not None:
        name = "R²" if isinstance(learner.loss, Squared) else "pseudo-R²"
        facts[name] = f"{explained:.4f}"
    lines, level = lines_of(learner, names, labels, alpha), 1.0 - alpha
    if inference is None:
        facts["errors"] = "none with a half-life"
        return Summary(facts, lines, {}, "no intervals with a half-life", level, marked=False)
    facts["errors"] = inference.assumed
    tests = {name: inference.wald(places) for name, places in (groups or {}).items()}
    marked = inference.enough and not inference.correlated
    return Summary(facts, lines, tests, inference.remark, level, marked)


def mark(p: float) -> str:
    """Return stars for a small p-value."""
    return next((stars for limit, stars in MARKS if p < limit), "")


def _p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def _numbers(line: Line) -> list[str]:
    if not math.isfinite(line.std_error):
        missing = "no interval" if math.isinf(line.std_error) else ""
        return [f"{line.weight:.5g}", missing, "", "", "", ""]
    t = f"{line.t:.2f}" if abs(line.t) < 1e5 else f"{line.t:.2g}"
    ends = f"{line.low:.5g}", f"{line.high:.5g}"
    return [f"{line.weight:.5g}", f"{line.std_error:.4g}", t, _p(line.p), *ends]
