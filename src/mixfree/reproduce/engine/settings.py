"""The size of an experiment."""

from dataclasses import dataclass, fields, replace
from typing import Any

from mixfree.base.checks import check_whole
from mixfree.core.methods import find_method

__all__ = ["FRESH", "Settings"]

FRESH = 1000  # first seed not used in development
LONGEST_WINDOW = 32  # samples per MLMC gradient at the highest of the paper's 5 levels


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

    def changed(self, **given: Any) -> "Settings":
        """Replace the settings that are not None; raise ValueError for one that does not apply."""
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in chosen:
            if getattr(self, name) == ():
                raise ValueError(f"`{name}` does not apply to this experiment")
        return replace(self, **chosen)

    def covers(self, other: "Settings") -> bool:
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
