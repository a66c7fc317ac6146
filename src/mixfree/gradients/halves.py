"""The gradients of extragradient steps: a batch for the half step, MLMC for the whole one."""

from dataclasses import dataclass

from mixfree.base.arithmetic import Array
from mixfree.gradients.mlmc import MLMC
from mixfree.gradients.window import WindowState


@dataclass(slots=True)
class HalvesState(WindowState):
    """A window, and whether its gradients belong to a half point."""

    half: int = 0

    def check(self, what: str) -> None:
        """Points are whole or half."""
        WindowState.check(self, what)
        if self.half not in (0, 1):
            raise ValueError(f"state of the {what} does not fit: half is {self.half}")


@dataclass(frozen=True)
class Halves(MLMC):
    """Steps in pairs: the first along the mean of B samples, the second along an MLMC gradient.

    These are the two halves of an :class:`Extragradient <mixfree.steps.Extragradient>` step; the
    output uses the points between them, x^{k+½}.

    Examples
    --------
    >>> law = Halves(levels=2, batch=3)
    >>> [law.length(steps, samples=0) for steps in range(6)]
    [3, 6, 3, 6, 3, 6]
    """

    def start(self, x0: Array) -> HalvesState:
        """State of a run that has seen nothing."""
        return HalvesState(super().start(x0).sum)

    def level(self, step: int, samples: int = 0) -> int:
        """Odd steps are half steps and have no correction."""
        return 0 if step % 2 else super().level(step, samples)

    @property
    def expected_samples(self) -> float:
        """Expected number of samples per step, averaged over the two halves."""
        return 0.5 * (self.batch + super().expected_samples)

    def add(self, state: HalvesState, gradient: Array, steps: int) -> Array | None:  # type: ignore[override]
        """Add one gradient; return the sum when the window is full."""
        state.half = steps % 2
        return super().add(state, gradient, steps)

    def iterate(self, state: HalvesState, before: Array, after: Array) -> Array | None:  # type: ignore[override]
        """The half points only."""
        return before if state.half else None
