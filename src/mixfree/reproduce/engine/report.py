"""Reports of results: tables, claims with their verdicts, and curves with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.figures import PALETTE, styles_of
from mixfree.base.table import Table
from mixfree.reproduce.engine.settings import FRESH, Settings
from mixfree.reproduce.engine.statistics import Estimate, Interval, estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    Figure = Any  # Matplotlib is imported only when something is drawn

__all__ = ["Claim", "Figure", "Report", "Row", "Table", "curves", "every", "gather", "where"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A statement made before the measurement, and what was measured."""

    text: str
    measured: str
    holds: bool | None  # None if undecided

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.holds is None:
            return "not decided"
        return "holds" if self.holds else "does not hold"

    @classmethod
    def below(
        cls, text: str, exponent: Estimate | Interval, limit: float, passes: bool = True
    ) -> Claim:
        """Claim that an exponent is below a limit or, unless it ``passes``, that it is not.

        Examples
        --------
        >>> Claim.below("falls like 1/T", Estimate(-0.5, 0.1), -0.9, passes=False).verdict
        'holds'
        """
        verdict = exponent.below(limit)
        return cls(text, exponent.short(), None if verdict is None else verdict is passes)


def every(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold: False if one does not, else None if one is undecided.

    Examples
    --------
    >>> every([True, None]), every([None, False])
    (None, False)
    """
    found = list(verdicts)
    return False if False in found else None if None in found else True


@dataclass(frozen=True)
class Report:
    """The outcome of an experiment."""

    tables: Sequence[Table]
    figures: dict[str, Figure]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = field(default=())

    def judged(self, settings: Settings, full: Settings) -> Report:
        """Add the seeds, and remove verdicts if the runs are too small or the seeds not fresh.

        Verdicts need runs of full size, on seeds not used in development.
        """
        seeds = settings.seed_numbers
        notes = [f"Seeds {seeds[0]} to {seeds[-1]}.", *self.notes]
        if not self.claims or (settings.first_seed >= FRESH and settings.covers(full)):
            return replace(self, notes=notes)
        why = f"Too small to judge the claims: the full size is {full.options()}."
        if not settings.first_seed >= FRESH:
            why = f"No verdicts on seeds below {FRESH}, which development uses. {why}"
        undecided = [replace(claim, holds=None) for claim in self.claims]
        return replace(self, claims=undecided, notes=[why, *notes])

    def all_tables(self) -> list[Table]:
        """Return the tables, followed by that of the claims if there are any."""
        verdicts = [(claim.text, claim.measured, claim.verdict) for claim in self.claims]
        claims = [Table("Claims", ["claim", "measured", "verdict"], verdicts)] if verdicts else []
        return [*self.tables, *claims]

    def markdown(self) -> str:
        """Format tables and notes as Markdown."""
        return "\n\n".join([*(t.markdown() for t in self.all_tables()), *self.notes]) + "\n"

    def show(self) -> None:
        """Print tables and notes to the terminal."""
        for table in self.all_tables():
            table.show()
        for note in self.notes:
            print(note)


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Select the rows that have all of the given values.

    Examples
    --------
    >>> where([{"m": "a", "x": 1}, {"m": "a", "x": 2}], m="a", x=2)
    [{'m': 'a', 'x': 2}]
    """
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def gather(
    rows: Iterable[Row], series: str | tuple[str, ...], x: str, y: str | None = None
) -> dict[Any, dict[Any, list[Any]]]:
    """Collect the values of ``y``, or whole rows, by series and by ``x``, in the order of the rows.

    A series has one value in common, or several.

    Examples
    --------
    >>> rows = [{"m": "a", "x": 1, "y": 5.0}, {"m": "a", "x": 1, "y": 6.0}]
    >>> gather(rows, "m", "x", "y"), gather(rows[:1], ("m", "x"), "x", "y")
    ({'a': {1: [5.0, 6.0]}}, {('a', 1): {1: [5.0]}})
    """
    found: dict[Any, dict[Any, list[Any]]] = {}
    for row in rows:
        key = row[series] if isinstance(series, str) else tuple(row[name] for name in series)
        found.setdefault(key, {}).setdefault(row[x], []).append(row if y is None else row[y])
    return found


def curves(
    axes: Axes,
    rows: Iterable[Row],
    series: str,
    x: str,
    y: str,
    shade: bool = True,
    **style: Any,
) -> None:
    """Plot the mean of ``y`` against ``x``, one line per series, with its 95 % interval shaded."""
    found_by_name = gather(rows, series, x, y)
    styles = styles_of(map(str, found_by_name))
    for index, (name, points) in enumerate(found_by_name.items()):
        at = sorted(points)
        found = [estimate(points[place]) for place in at]
        means = np.array([each.mean for each in found])
        drawn = {"linewidth": 1.8, **styles[str(name)], **style}
        if index >= len(PALETTE):
            drawn |= {"marker": "s", "markersize": 4, "markevery": 0.1}
        axes.plot(at, means, label=str(name), **drawn)
        if shade and any(np.isfinite(each.half) for each in found):
            # An interval may reach below zero, which a logarithmic axis cannot show.
            low = np.maximum([each.low for each in found], means / 50.0)
            high = [each.high for each in found]
            axes.fill_between(at, low, high, color=drawn["color"], alpha=0.18, lw=0)
