"""Memory: average the gradient of each sample with those of draws from the whole past."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.base.checks import check_whole
from mixfree.base.draws import DRAWN, KEPT, Key, below, key
from mixfree.base.slots import Slots
from mixfree.base.state import State
from mixfree.gradients.window import Window, WindowState


@dataclass(slots=True)
class ReservoirState(State):
    """The samples kept, the sum of gradients at the present point, and the inner part's state."""

    sample: Slots
    inner: WindowState
    group: Array  # sum of the gradients of the newest sample and its draws so far
    turn: int = 0  # number of gradients in the sum
    waiting: list[Any] = field(default_factory=list)  # the newest sample until its gradient arrives

    units: ClassVar[Mapping[str, str]] = {"group": "gradients"}

    @property
    def samples(self) -> int:
        """Samples of the stream so far."""
        return self.sample.seen

    def check(self, what: str) -> None:
        """A sample waits or is being processed, not both; the inner part has all others."""
        whole = self.sample.seen - (self.turn > 0)
        if not (len(self.waiting) <= (self.turn == 0) and self.inner.samples == whole):
            raise ValueError(
                f"state of the {what} does not fit: {self.inner.samples} of {self.sample.seen} "
                f"samples used, {self.turn} gradients told of the next"
            )

    def expect(self, waiting: list[Any]) -> None:
        """Set the sample, if any, whose gradient comes next; the last one must be complete."""
        if self.turn:
            raise RuntimeError(
                "the last sample's draws are not finished: tell their gradients first"
            )
        self.waiting = waiting


@dataclass(frozen=True)
class Reservoir:
    r"""The mean gradient of the next sample and of ``draws`` samples of the past, at one point.

    A reservoir keeps a uniform sample of all samples so far, and the draws are uniform draws
    from it, with replacement. The mean is one sample's gradient for the part ``inner``:

    .. math:: g_t = \frac{1}{1+k}\Big(\nabla f(w_t; z_t) + \sum_{i=1}^k \nabla f(w_t; z_{s_i})\Big)

    Requires the samples, not only their gradients:
    ``for z in opt.offer(sample): opt.tell(grad(opt.x, z))``.

    Parameters
    ----------
    inner
        The gradient part that receives the means.
    size, draws
        Samples kept, and draws per sample; each costs one more gradient.
    seed
        Seed of the reservoir and of the draws.

    Examples
    --------
    >>> import mixfree as mf
    >>> opt = mf.SGD([0.0])
    >>> opt.remember(100)
    >>> for z in (1.0, 3.0):
    ...     told = [opt.tell(opt.x - due) for due in opt.offer(z)]
    >>> told, opt.samples, opt.steps
    ([False, True], 2, 2)
    """

    inner: Window
    size: int = 1000
    draws: int = 1
    seed: int = 0
    key: Key = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_whole(self.size, "memory", most=2**31 - 1)
        check_whole(self.draws, "draws", most=2**16)
        object.__setattr__(self, "key", key(self.seed, DRAWN))

    @property
    def share(self) -> float:
        """Weight of each gradient in the mean."""
        return 1.0 / (1 + self.draws)

    def start(self, x0: Array) -> ReservoirState:
        """State of a run that has seen nothing."""
        sample = Slots(self.size, key(self.seed, KEPT))
        return ReservoirState(sample, self.inner.start(x0), np.zeros_like(x0))

    def offer(self, state: ReservoirState, sample: Any) -> Iterator[Any]:
        """Yield the sample itself, which is kept once its gradient is told, then the draws."""
        state.expect([sample])
        return self.due(state)

    def due(self, state: ReservoirState) -> Iterator[Any]:
        """Yield the samples whose gradients are still due."""
        while state.waiting or state.turn:
            turn = state.turn
            yield state.sample.sample(self.slot(state)) if turn else state.waiting[0]
            if state.turn == turn and (turn or state.waiting):
                raise RuntimeError("the gradient of a sample that was due was not told")

    def slot(self, state: ReservoirState) -> int:
        """The slot of the next draw."""
        counter = (state.sample.seen - 1) * self.draws + state.turn - 1
        return below(self.key, counter, state.sample.filled)

    def add(self, state: ReservoirState, gradient: Array, steps: int) -> Array | None:
        """Sum the gradients at this point; pass their mean to the inner part."""
        if state.turn:
            state.group += gradient
        elif state.waiting:
            state.sample.keep(state.waiting.pop())
            np.copyto(state.group, gradient)
        else:
            raise RuntimeError(
                "a method with memory needs the samples and not just their gradients: use "
                "'for z in opt.offer(sample): opt.tell(grad(opt.x, z))'"
            )
        state.turn += 1
        if state.turn <= self.draws:
            return None
        state.turn = 0
        return self.inner.add(state.inner, self.share * state.group, steps)

    def iterate(self, state: ReservoirState, before: Array, after: Array) -> Array | None:
        """As for the inner part."""
        return self.inner.iterate(state.inner, before, after)

    def pending(self, state: ReservoirState) -> int:
        """Samples that no step has used yet."""
        return self.inner.pending(state.inner) + (state.turn > 0)

    def number(self, state: ReservoirState) -> int:
        """Position of the next sample, or of the drawn one."""
        return int(state.sample.numbers[self.slot(state)]) if state.turn else state.sample.seen + 1
