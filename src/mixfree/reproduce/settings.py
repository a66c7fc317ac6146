"""The size of an experiment."""

from dataclasses import dataclass, fields, replace
from typing import Any

from mixfree.base.checks import check_whole
from mixfree.core.methods import find_method
from mixfree.reproduce.problem import switching_probability

ONE_WINDOW = 32  # samples in a window of the highest of the paper's 5 levels


@dataclass(frozen=True)
class Settings:
    """How much of an experiment to run. All that its results depend on, with the version.

    Parameters
    ----------
    samples
        Samples a run.
    seeds
        Runs of everything, with seeds 0, 1, ….
    methods
        Names of the table of methods; empty if the experiment does not compare methods.
    p
        Probabilities of switching between the two states; empty if it has no such chain.

    Examples
    --------
    >>> Settings(samples=1000, seeds=3, p=(1e-4,)).changed(seeds=5)
    Settings(samples=1000, seeds=5, methods=(), p=(0.0001,))
    """

    samples: int
    seeds: int
    methods: tuple[str, ...] = ()
    p: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_whole(self.samples, "samples", least=ONE_WINDOW)
        check_whole(self.seeds, "seeds")
        for method in self.methods:
            find_method(method)
        for p in self.p:
            switching_probability(p)
        for name in ("methods", "p"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} has the same value twice: {values}")

    def changed(self, **given: Any) -> "Settings":
        """The same with what is given and not None, where the experiment has that choice."""
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in chosen:
            if getattr(self, name) == ():
                raise ValueError(f"this experiment has no choice of {name}")
        return replace(self, **chosen)

    def covers(self, other: "Settings") -> bool:
        """Whether all that the other size measures is measured, at least as well.

        Examples
        --------
        >>> full = Settings(samples=1000, seeds=3, p=(0.5, 0.1))
        >>> full.changed(seeds=5).covers(full), full.changed(p=(0.5,)).covers(full)
        (True, False)
        """
        return (
            self.samples >= other.samples
            and self.seeds >= other.seeds
            and set(self.p) >= set(other.p)
        )

    def options(self) -> str:
        """As options of the command.

        Examples
        --------
        >>> Settings(samples=1000, seeds=3, methods=("mag", "sgd")).options()
        '--samples 1000 --seeds 3 --methods mag,sgd'
        """
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != ():
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words.append(f"--{field.name} {text}")
        return " ".join(words)
