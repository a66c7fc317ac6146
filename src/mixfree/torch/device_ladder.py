"""The ladder's arithmetic on the parameters' device: twin of :class:`mixfree.steps.Ladder`.

Nothing here synchronises with the device. Branches depend on the step number alone; choices that
depend on gradients use ``torch.where``.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixfree.dropins.old_distance import KEPT, MOVED, DistanceState
from mixfree.dropins.old_ladder import EARLY, LARGEST_EXPONENT, Ladder, LadderState
from mixfree.torch.tensors import sums_dtype


@dataclass(slots=True)
class DeviceDistance:
    """As :class:`mixfree.dropins.old_distance.DistanceState`, with tensors."""

    rbar: Tensor
    lam: Tensor
    origin: Tensor
    mean: Tensor
    before: Tensor
    weighted_sum: Tensor
    numerator: Tensor
    weight: float
    epoch: int
    margin: Tensor

    def add(self, total: Tensor, x: Tensor, back: Tensor) -> None:
        """Add the latest gradients: ``total`` is Σ g_i, and ``back`` is Σ g_i·(x_i − x)."""
        self.numerator = self.numerator + self.lam * (total @ (self.origin - x) - back)
        self.weighted_sum = self.weighted_sum + self.lam * total

    def update(self, x: Tensor, step: int, steps: int, lr: float) -> None:
        """Update r̄ at the point ``x``, ``steps`` steps after the last update."""
        self.weight += float(step) * steps
        self.mean = torch.lerp(self.mean, x, float(step) * steps / self.weight)
        per_coordinate = self.rbar.numel() > 1
        size = torch.linalg.vector_norm(self.weighted_sum, 1 if per_coordinate else 2)
        found = torch.where(size > 0.0, self.margin * self.numerator / size, 0.0)
        rbar = torch.maximum(self.rbar[0], found)
        if step >= self.epoch:
            self.epoch *= 2
            moved = MOVED * _size(self.mean - self.before, per_coordinate)
            self.before, self.weight = self.mean, 0.0
            # Steps shortened by lr take longer to move as far.
            arrived = (moved > 0.0) & (moved < lr * rbar)
            rbar = torch.where(arrived, torch.maximum(moved, KEPT * rbar), rbar)
            self.margin = torch.where(arrived, 1.0, self.margin)
            self.origin = torch.where(arrived, self.mean, self.origin)
            self.numerator = torch.where(arrived, 0.0, self.numerator)
            self.weighted_sum = torch.where(arrived, 0.0, self.weighted_sum)
        self.rbar = rbar.expand_as(self.rbar)
        self.lam = torch.maximum(self.lam, rbar)


@dataclass(slots=True)
class DeviceLadder:
    """As :class:`mixfree.dropins.old_ladder.LadderState`, with tensors for arrays."""

    unit: int
    rate: Tensor
    sum: Tensor
    squares: Tensor
    carry: Tensor
    total: Tensor
    halves: Tensor
    levels: Tensor
    excess: Tensor
    distance: DeviceDistance

    @property
    def largest_exponent(self) -> int:
        """Exponent of the largest gradient, in the state's unit, whose square is finite."""
        return LARGEST_EXPONENT if self.rate.dtype == torch.float64 else 30

    @property
    def largest(self) -> float:
        """The largest gradient whose square does not overflow in the state's unit."""
        exponent = self.unit + self.largest_exponent
        return 2.0**exponent if exponent < 1024 else math.inf

    def step(
        self,
        rule: Ladder,
        direction: Tensor,
        size: Tensor,
        step: int,
        x: Tensor | None = None,
        lr: float = 1.0,
        farthest: float = math.inf,
    ) -> Tensor:
        """Return the displacement of every coordinate, or the common rate along the direction.

        Parameters
        ----------
        rule
            The settings.
        direction, size
            The gradient or its sketch, and its norm.
        step
            The step number.
        x
            The point or its sketch, if ``rule.refreshes(step)``.
        lr
            Factor of the displacements of this block.
        farthest
            Scale beyond which steps are zero, since the run diverges.
        """
        g, length = _scaled(direction, -self.unit), _scaled(size, -self.unit)
        if rule.per_coordinate:
            self.squares.addcmul_(g, g)
        else:
            self.squares.addcmul_(length, length)
        self.sum.add_(g)
        if x is not None:
            self._refresh(rule, g, length, step, x, lr, farthest)
        rbar = self.distance.rbar
        if rule.per_coordinate:
            return torch.clamp(self.rate * g, -rbar, rbar)
        # A gradient of zero makes rbar / length infinite, and moves nothing.
        return _scaled(torch.minimum(self.rate, rbar / length)[0], -self.unit)

    def rates(self) -> Tensor:
        """Return the displacement per unit of gradient."""
        return _scaled(self.rate, -self.unit)

    def reach(self, rule: Ladder) -> Tensor:
        """Return the twin of :meth:`mixfree.steps.Ladder.reach`."""
        return self.distance.lam

    def _refresh(
        self,
        rule: Ladder,
        g: Tensor,
        length: Tensor,
        step: int,
        x: Tensor,
        lr: float,
        farthest: float,
    ) -> None:
        """Add the gradients since the last refresh to all sums, and update the rates."""
        distance, weight, total = self.distance, self.distance.lam, self.sum
        if rule.alpha is None:
            # The steps from each x_i to x_t had the current rates, which end now.
            earlier = total - g
            if rule.per_coordinate:
                back = self.rate @ (earlier * earlier + (self.squares - g * g))
            else:
                back = (self.rate * (earlier @ earlier + self.squares - length * length))[0]
            distance.add(total, x, 0.5 * lr * back)
        self.total = self.total + weight * weight * self.squares
        self.carry = self.carry + weight * total
        self.squares, self.sum = torch.zeros_like(self.squares), torch.zeros_like(total)
        if step % rule.block == 0:
            self._climb(rule, step)
        if rule.alpha is None:
            steps = 1 if step <= EARLY * rule.block else rule.block
            distance.update(x, step, steps, lr)
        root = torch.sqrt(self.total + self.excess[0] if len(self.excess) else self.total)
        moves = (root > 0.0) & (self.reach(rule) <= farthest)
        self.rate = torch.where(moves, distance.lam * distance.rbar / root, 0.0)

    def _climb(self, rule: Ladder, step: int) -> None:
        """Add the block's sum to the first level, and complete levels to the next."""
        levels, blocks = rule.levels(step), step // rule.block
        for name in ("halves", "levels", "excess"):
            rows: Tensor = getattr(self, name)
            if len(rows) < levels:
                more = rows.new_zeros(levels - len(rows), rows.shape[1])
                setattr(self, name, torch.cat([rows, more]))
        carry = self.carry
        complete = min((blocks & -blocks).bit_length() - 1, levels)
        for j in range(complete):
            difference = carry - self.halves[j]
            self.levels[j] += difference**2 if rule.per_coordinate else difference @ difference
            carry = carry + self.halves[j]
        if complete < levels:
            self.halves[complete] = carry
        # excess[j] is the sum over levels j and above; levels above `complete` are unchanged.
        for j in reversed(range(complete)):
            own = torch.relu(self.levels[j] - self.total)
            self.excess[j] = own + self.excess[j + 1] if j + 1 < levels else own
        self.carry = torch.zeros_like(carry)


def on_device(state: LadderState, device: torch.device) -> DeviceLadder:
    """Convert the state of the reference to new tensors."""
    dtype = sums_dtype(device)

    def moved(value: Any) -> Any:
        if isinstance(value, int):
            return value
        return torch.tensor(value, dtype=dtype, device=device)

    distance = {f.name: moved(getattr(state.distance, f.name)) for f in fields(state.distance)}
    distance["weight"] = state.distance.weight
    own = {f.name: moved(getattr(state, f.name)) for f in fields(state) if f.name != "distance"}
    return DeviceLadder(**own, distance=DeviceDistance(**distance))


def on_host(ladder: DeviceLadder) -> LadderState:
    """Convert to the state of the reference."""

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        array: Any = value.double().cpu().numpy()
        return np.array(array) if array.ndim else float(array)

    distance = {f.name: moved(getattr(ladder.distance, f.name)) for f in fields(ladder.distance)}
    own = {f.name: moved(getattr(ladder, f.name)) for f in fields(ladder) if f.name != "distance"}
    return LadderState(**own, distance=DistanceState(**distance))


def _size(vector: Tensor, per_coordinate: bool) -> Tensor:
    if per_coordinate:
        return vector.abs().amax()
    return torch.linalg.vector_norm(vector)


def _scaled(x: Tensor, exponent: int) -> Tensor:
    """Return 2^exponent · x, in two steps so that the power itself cannot overflow."""
    if not exponent:
        return x
    return x * 2.0 ** (exponent // 2) * 2.0 ** (exponent - exponent // 2)
