"""MLMC gradients with lighter tails: clipped, or with medians of means at high levels.

With levels up to log₂ T a correction is, on rare occasions, of the order of T, and AdaGrad's steps
stay small from then on. Both variants trade some bias for lighter tails.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_positive, check_whole
from mixfree.base.state import UnitChange
from mixfree.gradients.mlmc import MLMC
from mixfree.gradients.window import WindowState


@dataclass(slots=True)
class ClippedState(WindowState):
    """The window, and the size of the gradients so far."""

    root: float = 0.0  # √Σ‖∇f‖² over all samples

    def check(self, what: str) -> None:
        """A root is not negative."""
        WindowState.check(self, what)
        if self.root < 0.0:
            raise ValueError(f"state of the {what} does not fit: root is {self.root}")


@dataclass(frozen=True)
class ClippedMLMC(MLMC):
    r"""The estimate of :class:`MLMC`, clipped where it is much longer than a gradient.

    .. math:: g_t \min(1, c R_t / \|g_t\|), \qquad
              R_t^2 = \text{mean of } \|\nabla f\|^2 \text{ over the samples so far}

    Parameters
    ----------
    clip
        c, the length above which an estimate is cut, in units of the root mean square gradient.
    levels, weights, horizon, seed, max_steps
        As in :class:`MLMC`.

    Examples
    --------
    >>> part = ClippedMLMC(levels=1, clip=0.5)
    >>> state = part.start(np.zeros(1))
    >>> part.add(state, np.array([1.0]), 0)
    >>> part.add(state, np.array([7.0]), 0)  # the mean is 4, the root mean square 5
    array([2.5])
    """

    clip: float = 30.0

    rescales: ClassVar[bool] = False  # the clipping threshold depends on the units

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.clip, "clip")

    def start(self, x0: Array) -> ClippedState:
        """State of a run that has seen nothing."""
        return ClippedState(np.zeros_like(x0))

    def add(self, state: WindowState, gradient: Array, steps: int) -> Array | None:
        """Add one gradient; the clipped estimate when the window is full."""
        assert isinstance(state, ClippedState)
        state.root = math.hypot(state.root, norm(gradient))
        estimate = super().add(state, gradient, steps)
        if estimate is None:
            return None
        longest = self.clip * (state.root / math.sqrt(state.samples))
        length = norm(estimate)
        return estimate if length <= longest else estimate * (longest / length)


@dataclass(slots=True)
class MedianState(WindowState):
    """The window: its first gradient in ``sum``, and the signed sum of each block."""

    blocks: Array = field(default_factory=lambda: np.zeros(0))  # k × d, in one row

    def change_units(self, change: UnitChange) -> None:
        """Sums of gradients, all of them."""
        WindowState.change_units(self, change)
        rows = self.blocks.reshape(-1, self.sum.size)
        self.blocks = np.concatenate([change.gradients(row) for row in rows])


@dataclass(frozen=True)
class MedianMLMC(MLMC):
    r"""The estimate of :class:`MLMC` with medians of means in the corrections of high levels.

    Each half of a window is cut into k blocks. Let :math:`S_i` be the sum of the i-th block of the
    second half minus that of the first half; their sum is the correction
    :math:`2^J (g^J - g^{J-1})`, and k times their median, coordinate by coordinate, replaces it.
    Windows with halves of fewer than k samples are as in :class:`MLMC`.

    Parameters
    ----------
    blocks
        k, a power of 2.
    levels, weights, horizon, seed, max_steps
        As in :class:`MLMC`.

    Examples
    --------
    >>> part = MedianMLMC(levels=None, horizon=1024, blocks=4)
    >>> part.start(np.zeros(3)).blocks.size
    12
    """

    blocks: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.blocks, "blocks", least=2, most=1024)
        if self.blocks & (self.blocks - 1):
            raise ValueError(f"blocks must be a power of 2, not {self.blocks}")
        if self.batch != 1:
            raise ValueError(f"batch must be 1 with medians of means, not {self.batch}")

    def start(self, x0: Array) -> MedianState:
        """State of a run that has seen nothing."""
        zeros = np.zeros(self.blocks * x0.size, x0.dtype)
        return MedianState(np.zeros_like(x0), blocks=zeros)

    def add(self, state: WindowState, gradient: Array, steps: int) -> Array | None:
        """Add one gradient to the sum of its block; the estimate when the window is full."""
        assert isinstance(state, MedianState)
        seen = state.seen
        if seen == 0:
            state.length = self.length(steps, state.samples)
            state.blocks[:] = 0.0
            state.sum[:] = gradient
        state.samples += 1
        length = state.length
        if length == 1:
            return gradient
        half = length // 2
        blocks = self.blocks if half >= self.blocks else 1
        table = state.blocks.reshape(self.blocks, -1)
        block = seen % half * blocks // half
        if seen < half:
            table[block] -= gradient
        else:
            table[block] += gradient
        if seen + 1 < length:
            state.seen = seen + 1
            return None
        state.seen = 0
        correction = blocks * np.median(table[:blocks], axis=0)
        estimate: Array = state.sum + self.scale(length) * correction
        return estimate
