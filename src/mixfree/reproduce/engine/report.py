"""Settings of an experiment, and reports: tables, claims with their verdicts, and curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.checks import check_whole
from mixfree.base.figures import styles_of
from mixfree.base.terminal import Table
from mixfree.core.methods import find_method
from mixfree.reproduce.engine.statistics import Interval, bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any  # Matplotlib is imported only when something is drawn

FRESH = 1000  # first seed not used in development
LONGEST_WINDOW = 32  # samples per MLMC gradient at the highest of the paper's 5 levels
Row = dict[str, Any]
DOTS: dict[str, Any] = {"marker": "o", "markersize": 4}
VERDICTS = {True: "holds", False: "fails", None: "not decided"}


@dataclass(frozen=True)
class Settings:
    """The size of an experiment, which together with the versions determines its results.

    Parameters
    ----------
    samples, seeds
        Samples per run, and number of seeds.
    methods
        Names of methods; empty if the experiment does not compare methods.
    p
        Switching probabilities of the two-state chain; empty if there is no such chain.
    first_seed
        The first of the consecutive seeds.
    """

    samples: int
    seeds: int
    methods: tuple[str, ...] = ()
    p: tuple[float, ...] = ()
    first_seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self.samples, "samples", least=LONGEST_WINDOW)
        check_whole(self.seeds, "seeds")
        check_whole(self.first_seed, "first_seed", least=0)
        for method in self.methods:
            find_method(method)
        for p in self.p:
            if not 0.0 < p < 1.0:
                raise ValueError(f"p must be a probability between 0 and 1, both excluded, not {p}")
        for name in ("methods", "p"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} contains a value twice: {values}")

    @property
    def seed_numbers(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def changed(self, **given: Any) -> Settings:
        """Replace the settings that are not None; raise ValueError for one that does not apply."""
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in chosen:
            if getattr(self, name) == ():
                raise ValueError(f"`{name}` does not apply to this experiment")
        return replace(self, **chosen)

    def covers(self, other: Settings) -> bool:
        """Whether everything in ``other`` is measured, on at least as many and as fresh seeds."""
        sizes = ("samples", "seeds", "first_seed")
        larger = all(getattr(self, name) >= getattr(other, name) for name in sizes)
        return larger and set(self.p) >= set(other.p)

    def options(self) -> str:
        """Write the settings as options of a command."""
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != ():
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words.append(f"--{field.name.replace('_', '-')} {text}")
        return " ".join(words)


@dataclass(frozen=True)
class Claim:
    """A statement made before the measurement, and what was measured."""

    text: str
    measured: str
    holds: bool | None  # None if undecided

    @classmethod
    def below(
        cls,
        text: str,
        found: Interval | Mapping[Any, Interval],
        limit: float,
        form: str = "+.2f",
        measured: str | None = None,
        empty: str = "not measured",
    ) -> Claim:
        """Claim that a value, or every one of several, is below a limit.

        It holds if the intervals are, fails if one is above, and is not decided otherwise. The
        largest of several is shown, with its name, unless ``measured`` is given; ``empty`` is
        shown for none, which decide nothing.
        """
        several = found if isinstance(found, Mapping) else {"": found}
        if not several:
            return cls(text, empty, None)
        verdicts = [each.below(limit) for each in several.values()]
        holds = False if False in verdicts else None if None in verdicts else True
        if measured is None:
            known = {name: v for name, v in several.items() if not math.isnan(v.value)} or several
            name = max(known, key=lambda each: known[each].value)
            measured = known[name].text(form) + (f" ({name})" if name != "" else "")
        return cls(text, measured, holds)


@dataclass(frozen=True)
class Report:
    """The outcome of an experiment."""

    tables: Sequence[Table]
    figures: dict[str, Figure]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()

    def qualified(self, settings: Settings, full: Settings) -> Report:
        """Add the seeds, and remove verdicts if the runs are too small or the seeds not fresh."""
        seeds, fresh = settings.seed_numbers, settings.first_seed >= FRESH
        notes = [f"Seeds {seeds[0]} to {seeds[-1]}.", *self.notes]
        if not self.claims or (fresh and settings.covers(full)):
            return replace(self, notes=notes)
        why = f"Too small to judge the claims: the full size is {full.options()}."
        if not fresh:
            why = f"No verdicts on seeds below {FRESH}, which development uses. {why}"
        undecided = [replace(claim, holds=None) for claim in self.claims]
        return replace(self, claims=undecided, notes=[why, *notes])

    def all_tables(self) -> list[Table]:
        """Return the tables, followed by that of the claims if there are any."""
        lines = [(claim.text, claim.measured, VERDICTS[claim.holds]) for claim in self.claims]
        claims = [Table("Claims", ["claim", "measured", "verdict"], lines)] if lines else []
        return [*self.tables, *claims]

    def markdown(self) -> str:
        """Format tables and notes as Markdown."""
        return "\n\n".join([*(t.markdown() for t in self.all_tables()), *self.notes]) + "\n"


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Select the rows that have all of the given values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def gather(
    rows: Iterable[Row], series: str | tuple[str, ...], x: str, y: str | None = None
) -> dict[Any, dict[Any, list[Any]]]:
    """Collect the values of ``y``, or whole rows, by series and by ``x``, in the order of the rows.

    A series has one value in common, or several.
    """
    found: dict[Any, dict[Any, list[Any]]] = {}
    for row in rows:
        key = row[series] if isinstance(series, str) else tuple(row[name] for name in series)
        found.setdefault(key, {}).setdefault(row[x], []).append(row if y is None else row[y])
    return found


def grid(
    title: str,
    heads: Sequence[str],
    found: Mapping[Any, Mapping[Any, Any]],
    cell: Callable[[Any], object] = str,
) -> Table:
    """Make a table with a line per key or tuple of keys, under ``heads``, and a column per name."""
    names = list(dict.fromkeys(name for group in found.values() for name in group))
    lines = [
        (
            *(key if isinstance(key, tuple) else (key,)),
            *(cell(group[name]) if name in group else "" for name in names),
        )
        for key, group in found.items()
    ]
    return Table(title, [*heads, *map(str, names)], lines)


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
    for name, points in found_by_name.items():
        at = sorted(points)
        means, low, high = np.array([bootstrap(points[place]) for place in at]).T
        drawn = {"linewidth": 1.8, **styles[str(name)], **style}
        axes.plot(at, means, label=str(name), **drawn)
        if shade and np.isfinite(high).any():
            axes.fill_between(at, low, high, color=drawn["color"], alpha=0.18, lw=0)
