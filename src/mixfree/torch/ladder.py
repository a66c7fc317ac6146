"""The ladder for PyTorch, with exact totals or with those of a sketch of the gradient."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import ParamsT

from mixfree.base.arithmetic import Array, farthest_of
from mixfree.dropins import Sketch, is_exact
from mixfree.dropins import old_ladder as steps
from mixfree.dropins.old_distance import Distance
from mixfree.dropins.old_ladder import BLOCK, LEAST_UNIT, LadderState
from mixfree.steps import Profile
from mixfree.steps.profile import CorrelationScale
from mixfree.torch.device_ladder import DeviceLadder, on_device, on_host
from mixfree.torch.stream import READ, Given, StreamOptimizer, StreamRun, check_multiplier
from mixfree.torch.tensors import Tensors, largest, norm, step_along, sums_dtype, wide


@dataclass(slots=True)
class LadderRun(StreamRun):
    """The state of the reference, and the parameters that its vectors represent."""

    tensors: int = 0  # number of parameters in the vectors; new ones are added at the next step
    sketched: int = 0  # entries of the model at the first step; 0 if totals are exact
    rate: float = 0.0  # ‖Δx‖/‖g‖ of the latest step before saving, for an lr of 1
    ladder: LadderState | None = None  # the saved state, until it is on the device

    def check(self, what: str) -> None:
        """Check that counts are not negative."""
        StreamRun.check(self, what)
        if self.tensors < 0 or self.sketched < 0:
            raise ValueError(f"state of the {what} does not fit: a count is negative")


class Ladder(StreamOptimizer):
    """AdaGrad whose accumulator includes the variance inflation of dyadic blocks.

    It needs no step size. Norms run over the parameters of all groups. A model of at most
    ``256·sketch`` entries has the exact totals of :class:`mixfree.steps.Ladder`. For a larger one,
    totals are those of a sketch of its gradients, so that a level takes ``sketch`` numbers instead
    of one per parameter. All arithmetic is on the parameters' device, and an ordinary step does not
    synchronise with it.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``lr``, ``weight_decay`` and
        ``maximize``.
    alpha, block, max_levels, distance
        As in :class:`mixfree.steps.Ladder`.
    per_coordinate
        One rate per coordinate, or one for all. ``None`` is one per coordinate where totals are
        exact. ``True`` makes totals exact for any model, at the cost of one copy of the parameters
        per level.
    sketch
        Numbers per level; ``None`` makes totals exact for any model.
    seed
        Seed of the sketch.
    lr
        Multiplies the step that the ladder finds; 1 unless a scheduler or a group changes it. A
        learning rate for another optimiser, such as 1e-3, is refused: nothing would be learnt.
    weight_decay
        Decoupled weight decay: each step also subtracts its rate times this times the parameters,
        which does not enter the totals.
    maximize
        Maximise the objective instead of minimising it.
    output
        ``"recent"``, ``"weighted"``, ``"average"`` or ``"last"``: the output of :meth:`averaged`
        and :meth:`eval`. The iterates of ``"recent"`` have weights that grow as t³, so that the
        beginning soon fades; where samples stay correlated for long, ``"weighted"``, with weights
        proportional to t, averages over more of them.
    check_finite
        As in :class:`mixfree.torch.MAG`.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.zeros(3))
    >>> opt = Ladder([w])
    >>> for _ in range(600):
    ...     opt.zero_grad()
    ...     (w - torch.tensor([1.0, 2.0, 3.0])).square().sum().backward()
    ...     opt.step()
    >>> opt.steps, bool((w - torch.tensor([1.0, 2.0, 3.0])).norm() < 0.2)
    (600, True)
    """

    buffers = (*StreamOptimizer.buffers, "lost")  # rounding error of a narrow parameter
    _run: LadderRun

    def __init__(
        self,
        params: ParamsT,
        *,
        alpha: float | None = None,
        per_coordinate: bool | None = None,
        block: int = BLOCK,
        max_levels: int | None = None,
        distance: Distance | None = None,
        sketch: int | None = 1024,
        seed: int = 0,
        lr: float = 1.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        output: str = "recent",
        check_finite: str = "late",
    ) -> None:
        check_multiplier(lr)
        distance = Distance() if distance is None else distance
        by_coordinate = per_coordinate is not False
        self._exact_rule = steps.Ladder(alpha, by_coordinate, block, max_levels, distance)
        self._sketched_rule = replace(self._exact_rule, per_coordinate=False)
        if sketch is not None:
            Sketch(sketch, seed=seed)
        settings = {
            "alpha": alpha,
            "per_coordinate": per_coordinate,
            "block": block,
            "max_levels": max_levels,
            "first": distance.first,
            "sketch": sketch,
            "seed": seed,
        }
        defaults = {"lr": lr, "weight_decay": weight_decay, "maximize": maximize}
        self._ladder: DeviceLadder | None = None  # None before the first step
        self._latest: tuple[torch.Tensor, torch.Tensor] | None = None  # Δx for an lr of 1, and ‖g‖
        super().__init__(params, defaults, settings, output, check_finite, LadderRun())

    def profile(self) -> Profile:
        """Return the correlation profile of the gradients: see :class:`mixfree.steps.Ladder`."""
        state = on_host(self._check_begun("profile"))
        return self._rule(self._run.sketched).profile(state, self.steps)

    def correlation_scale(self) -> CorrelationScale:
        """Return the number of samples over which gradients stay correlated."""
        return self.profile().correlation_scale()

    @property
    def rate(self) -> float:
        """‖Δx‖/‖g‖ of the latest step, at the current ``lr``; read from the device."""
        self._check_begun("rate")
        return self._mean_lr() * self._latest_rate()

    def _latest_rate(self) -> float:
        if self._latest is None:
            return self._run.rate
        moved, size = self._latest
        return float(norm([moved])) / float(size) if float(size) else 0.0

    @property
    def distance(self) -> float:
        """The scale r̄ of the steps, the largest if there are several; read from the device."""
        return float(self._check_begun("distance").distance.rbar.max())

    def _check_begun(self, asked: str) -> DeviceLadder:
        if self._ladder is None:
            raise ValueError(f"there is no {asked} before the first step: call step() first")
        return self._ladder

    def _take(self, given: list[Given]) -> bool:
        run, params = self._run, self._parameters()
        points = [self._point(p) for p in params]
        gradients = [_ascent(p, group) for group in self.param_groups for p in group["params"]]
        sketched = self._entries_to_sketch(params) if run.steps == 0 else run.sketched
        vector = self._vector(gradients, sketched)
        size = norm([vector]) if _has_wide_range(params) else torch.linalg.vector_norm(vector)
        renews = self._may_change_unit(params)
        most = largest(params)
        if not renews and self._ladder is not None:
            most = min(most, self._ladder.largest)
        left_out = self._refuse(size, given, most)
        rule, ladder = self._rule(sketched), self._ladder_of(params, sketched)
        if self.check_finite == "now":
            self._check_reach()
        if renews:
            ladder = self._with_unit(ladder, float(size), most)
        bad = left_out > 0.0
        vector.masked_fill_(bad, 0.0)
        size.masked_fill_(bad, 0.0)
        self._count_step()
        run.samples += 1
        if rule.refreshes(run.steps):
            x = self._vector(points, sketched)
            farthest = farthest_of(_numpy_dtype(params))
            moved = ladder.step(rule, vector, size, run.steps, x, self._mean_lr(), farthest)
        else:
            moved = ladder.step(rule, vector, size, run.steps)
        self._latest = (moved if rule.per_coordinate else moved * size, size)
        if rule.per_coordinate:
            self._displace(points, moved, ladder.rates())
        else:
            self._step_along(points, gradients, moved, left_out)
        self._round(points)
        return True

    def _point(self, p: torch.Tensor) -> torch.Tensor:
        """The parameter before it was rounded; the parameter itself from float32 on.

        The first steps are shorter than the spacing of narrower numbers: rounded, they would be
        lost, and the distance would never grow.
        """
        if p.dtype == wide(p.dtype):
            return p
        lost = self.state[p].get("lost")
        point = p.detach().to(wide(p.dtype))
        return point if lost is None else point + lost

    def _round(self, points: Tensors) -> None:
        """Give the points to the parameters, and keep what rounding takes from them."""
        for p, point in zip(self._parameters(), points, strict=True):
            if point is not p:
                p.copy_(point)
                self.state[p]["lost"] = point.sub_(p)

    def _report(self) -> None:
        super()._report()
        self._check_reach()

    def _check_reach(self) -> None:
        """Raise an error if the distance has diverged; parameters no longer move then."""
        farthest = farthest_of(_numpy_dtype(self._parameters()))
        rule = self._rule(self._run.sketched)
        if self._ladder is not None and float(self._ladder.reach(rule)) > farthest:
            raise ValueError(
                f"steps exceed {farthest:.0e} at sample {self.samples}: the loss falls without "
                "end, or its gradient never changes; the parameters no longer move"
            )

    def _displace(self, points: Tensors, displacement: torch.Tensor, rates: torch.Tensor) -> None:
        """Move every entry by its own displacement, and decay it at its own rate."""
        sizes = [p.numel() for p in points]
        parts = zip(points, displacement.split(sizes), rates.split(sizes), strict=True)
        for group in self.param_groups:
            lr, decay = float(group["lr"]), float(group["weight_decay"])
            for _ in group["params"]:
                p, part, rate = next(parts)
                if decay:
                    p.mul_((1.0 - (lr * decay * rate).clamp(max=1.0)).view_as(p).to(p.dtype))
                p.sub_(part.view_as(p), alpha=lr)

    def _step_along(
        self, points: Tensors, gradients: Tensors, rate: torch.Tensor, left_out: torch.Tensor
    ) -> None:
        """Move and decay all parameters at a common rate."""
        at = 0
        for group in self.param_groups:
            here, lr = slice(at, at + len(group["params"])), float(group["lr"])
            decay = float(group["weight_decay"])
            step_along(points[here], gradients[here], lr * rate, left_out, decay)
            at = here.stop

    def _mean_lr(self) -> float:
        """Return the mean ``lr`` over all entries."""
        entries = [sum(p.numel() for p in group["params"]) for group in self.param_groups]
        total = sum(n * float(g["lr"]) for n, g in zip(entries, self.param_groups, strict=True))
        return total / sum(entries) if sum(entries) else 1.0

    def _may_change_unit(self, params: Tensors) -> bool:
        """Whether to compare the gradient with the unit of the sums, reading from the device."""
        return _has_wide_range(params) and (
            self.check_finite == "now" or self.samples % READ == 0 or self._run.steps == 0
        )

    def _with_unit(self, ladder: DeviceLadder, size: float, most: float) -> DeviceLadder:
        """Change the unit if squares of such a gradient would overflow or underflow."""
        change = max(math.frexp(size)[1], LEAST_UNIT) - ladder.unit
        if abs(change) > ladder.largest_exponent and 0.0 < size < most:
            state = on_host(ladder)
            state.change_unit(change)
            self._ladder = ladder = on_device(state, ladder.rate.device)
        return ladder

    def _entries_to_sketch(self, params: Tensors) -> int:
        """Return the entries of the model; 0 if its totals are exact."""
        entries = sum(p.numel() for p in params)
        return 0 if self._is_exact(entries) else entries

    def _is_exact(self, entries: int) -> bool:
        return is_exact(entries, self.settings["sketch"], self.settings["per_coordinate"])

    def _ladder_of(self, params: Tensors, sketched: int) -> DeviceLadder:
        """Return the state, started or extended so that it includes every parameter."""
        run, rule, device = self._run, self._rule(sketched), params[0].device
        known, run.tensors = run.tensors, len(params)
        if self._ladder is None:
            run.sketched = sketched
            self._ladder = on_device(rule.start(self._host_vector(params, sketched)), device)
        elif known < len(params):
            state = on_host(self._ladder)
            if sketched:
                # New parameters count as unmoved so far, with gradients of zero.
                new = [p * (i >= known) for i, p in enumerate(params)]
                state.distance.shift(self._host_vector(new, sketched))
            else:
                rule.extend(state, self._host_vector(params[known:], 0))
            self._ladder = on_device(state, device)
        return self._ladder

    def _rule(self, sketched: int) -> steps.Ladder:
        """Return the step part: one rate per coordinate only if totals are exact."""
        return self._sketched_rule if sketched else self._exact_rule

    def _vector(self, tensors: Tensors, sketched: int) -> torch.Tensor:
        """Return the tensors as one vector, or its sketch, in the dtype of the sums."""
        if sketched:
            size, seed = self.settings["sketch"], self.settings["seed"]
            sketch, table = _sketch(size, sketched, seed, tensors[0].device)
            flat = sketch.of(tensors, torch.cat, table)
        else:
            flat = torch.cat([t.reshape(-1) for t in tensors])
        return flat.detach().to(sums_dtype(flat.device))

    def _host_vector(self, tensors: Tensors, sketched: int) -> Array:
        vector: Array = self._vector(tensors, sketched).double().cpu().numpy()
        return vector

    def _plain_run(self) -> dict[str, Any]:
        plain = super()._plain_run()
        if self._ladder is None:
            return plain
        return {**plain, "rate": self._latest_rate(), "ladder": on_host(self._ladder).plain()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        super().load_state_dict(state_dict)
        saved, self._run.ladder = self._run.ladder, None
        self._ladder = None if saved is None else on_device(saved, self._parameters()[0].device)
        self._latest = None

    def _restored_run(self, plain: Any) -> LadderRun:
        begun = isinstance(plain, Mapping) and plain.get("ladder") is not None
        run = LadderRun().restored({**plain, "ladder": None} if begun else plain, "optimiser")
        known = self._parameters()[: run.tensors]
        wrong = run.sketched > 0 and self._is_exact(run.sketched)
        if wrong or (run.steps > 0, len(known)) != (begun, run.tensors):
            raise ValueError(
                f"state of the optimiser does not fit: {run.steps} steps with {run.tensors} "
                f"tensors, of which {run.sketched} entries were sketched"
            )
        if begun:
            size = self.settings["sketch"] if run.sketched else sum(p.numel() for p in known)
            fresh = self._rule(run.sketched).start(np.zeros(size))
            run.ladder = fresh.restored(plain["ladder"], "ladder")
        return run

    def __getstate__(self) -> dict[str, Any]:
        rules = {"_exact_rule": self._exact_rule, "_sketched_rule": self._sketched_rule}
        return {**super().__getstate__(), **rules, "_ladder": self._ladder, "_latest": self._latest}


def _numpy_dtype(params: Tensors) -> type[np.floating[Any]]:
    return np.float32 if {p.dtype for p in params} - {torch.float64} else np.float64


def _has_wide_range(params: Tensors) -> bool:
    """Whether squares of gradients may exceed the range of the sums' dtype."""
    sums = sums_dtype(params[0].device)
    return sums == torch.float32 or sums in {p.dtype for p in params}


def _ascent(p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Return the gradient of the minimised objective; zero if there is none."""
    if p.grad is None:
        return torch.zeros_like(p)
    return -p.grad if group["maximize"] else p.grad


@lru_cache(maxsize=8)
def _sketch(
    size: int, entries: int, seed: int, device: torch.device
) -> tuple[Sketch, torch.Tensor]:
    sketch = Sketch(size, entries, seed)
    return sketch, torch.from_numpy(sketch.table).to(device)
