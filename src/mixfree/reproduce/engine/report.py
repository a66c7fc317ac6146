"""Settings of an experiment, and its report: tables, claims with their verdicts, figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixfree.base.checks import check_whole
from mixfree.base.terminal import Table
from mixfree.core.methods import find_method
from mixfree.reproduce.engine.rows import Figure
from mixfree.reproduce.engine.statistics import Interval

LONGEST_WINDOW = 32  # samples per MLMC gradient at the highest of the paper's 5 levels
Found = Interval | Mapping[Any, Interval]  # one value, or several by name
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

    @property
    def seed_numbers(self) -> range:
        """The seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def changed(self, **given: Any) -> Settings:
        """Replace the settings that are not None; raise ValueError for one that does not apply."""
        known = {name: value for name, value in given.items() if value is not None}
        for name in known:
            if getattr(self, name) == ():
                raise ValueError(f"`{name}` does not apply to this experiment")
        return replace(self, **known)

    def covers(self, other: Settings) -> bool:
        """Whether everything in ``other`` is measured, on at least as many and as fresh seeds."""
        sizes = ("samples", "seeds", "first_seed")
        larger = all(getattr(self, name) >= getattr(other, name) for name in sizes)
        return larger and set(self.p) >= set(other.p)

    def options(self) -> str:
        """Write the settings as options of a command."""
        each = {
            name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            for name, value in vars(self).items()
        }
        return " ".join(f"--{name.replace('_', '-')} {text}" for name, text in each.items() if text)


@dataclass(frozen=True)
class Claim:
    """A statement made before the measurement, and what was measured."""

    text: str
    measured: str
    holds: bool | None  # None if undecided

    @classmethod
    def below(
        cls, text: str, found: Found, limit: float, form: str = "+.2f", measured: str | None = None
    ) -> Claim:
        """Claim that a value, or every one of several, is below a limit.

        It holds if the intervals are, fails if one is above, and is not decided otherwise, nor by
        none at all. The largest of several is shown, with its name, unless ``measured`` is given.
        """
        several = found if isinstance(found, Mapping) else {"": found}
        if not several:
            return cls(text, "not measured", None)
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
        notes = [f"Seeds {settings.first_seed} to {settings.seed_numbers[-1]}.", *self.notes]
        if not self.claims or settings.covers(full):
            return replace(self, notes=notes)
        why = f"No verdicts: they need {full.options()}, or more; development uses lower seeds."
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
