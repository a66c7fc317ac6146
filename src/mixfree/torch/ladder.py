"""The ladder for PyTorch: vector updates around the scalar rule of the reference."""

import math
from operator import mul
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import ParamsT

from mixfree import steps
from mixfree.base.arithmetic import farthest_of
from mixfree.steps import ladder_rule as rule
from mixfree.steps.ladder_rule import BLOCK, LEVELS, MARGIN, Scale
from mixfree.steps.profile import CorrelationScale, Profile
from mixfree.torch.stream import Given, StreamOptimizer, check_multiplier
from mixfree.torch.tensors import (
    Tensors,
    first_entry,
    local,
    norm,
    numbers,
    sketch,
    summed,
    sums_dtype,
    wide,
)

FARTHEST = 1e15  # largest λ whose squares can be summed in float32; float64 has more room
Points = dict[torch.Tensor, torch.Tensor]  # tensors by the parameter they belong to


class Ladder(StreamOptimizer):
    """AdaGrad with its own distance and one factor for the correlation of gradients.

    It needs no learning rate: see :class:`mixfree.steps.Ladder`, whose twin it is. The parameters
    of all groups are one point. State: five numbers per weight, six with ``output="weighted"`` or
    ``"average"``, and a sketch of at most 29·1,024 numbers.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``lr``, ``weight_decay`` and
        ``maximize``.
    alpha, first, block
        As in :class:`mixfree.steps.Ladder`.
    lr
        Multiplies the step that the ladder finds; 1 unless a scheduler or a group changes it. A
        learning rate for another optimiser, such as 1e-3, is refused: nothing would be learnt.
    weight_decay
        Decoupled weight decay, as of AdamW: each step also subtracts ``lr`` times :attr:`rate`
        times this times the parameters.
    maximize
        Maximise the objective instead of minimising it.
    output
        ``"recent"``, ``"weighted"``, ``"average"`` or ``"last"``: the output of :meth:`averaged`
        and :meth:`eval`. The iterates of ``"recent"`` have weights that grow as t³, so that the
        beginning soon fades; where samples stay correlated for long, ``"weighted"``, with weights
        proportional to t, averages over more of them.

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

    def __init__(
        self,
        params: ParamsT,
        *,
        alpha: float | None = None,
        first: float | None = None,
        block: int = BLOCK,
        lr: float = 1.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
        output: str = "recent",
    ) -> None:
        check_multiplier(lr)
        steps.Ladder(alpha, first, block)
        settings = {"alpha": alpha, "first": first, "block": block}
        defaults = {**settings, "lr": lr, "weight_decay": weight_decay, "maximize": maximize}
        scale = Scale(0.0, 0.0, 0.0, MARGIN)._asdict()
        super().__init__(params, defaults, output, kappa=1.0, **scale)

    @property
    def distance(self) -> float:
        """The distance r̄, the largest possible step of a weight; 0 before the first step."""
        return float(self.run["rbar"])

    @property
    def inflation(self) -> float:
        """κ ≥ 1, by which the correlation of gradients divides squared steps."""
        return float(self.run["kappa"])

    @property
    def rate(self) -> float:
        """r̄/√(κ t), a typical step of a weight: compare it with Adam's learning rate."""
        return self.distance / math.sqrt(self.inflation * max(1, self.steps))

    def profile(self) -> Profile:
        """Return the correlation profile of the gradients: see :class:`mixfree.steps.Ladder`."""
        totals = self._levels()["totals"].double().cpu().numpy()
        state: Any = SimpleNamespace(total=float(totals[-1]), totals=totals[:-1])
        return steps.Ladder(block=self.run["block"]).profile(state, self.steps)

    def correlation_scale(self) -> CorrelationScale:
        """Return the number of samples over which gradients stay correlated."""
        return self.profile().correlation_scale()

    def _take(self, given: list[Given]) -> bool | None:
        run, params = self.run, self._parameters()
        points = {p: self._point(p) for p in params}
        gradients = [g for each in given for g in each.gradients]
        if gradients and not math.isfinite(norm(gradients, params[0])):
            return None
        self._begin(points)
        given = [
            each._replace(gradients=[g.to(points[p].dtype) for p, g in zip(*each[1:], strict=True)])
            for each in given
        ]
        weights, dots = self._pull(given, points)
        self._count_step()
        if run["alpha"] is None:
            self._search(weights, dots, points)
        directions: Points = {}
        for _, moving, gradients in given:
            squares = self._get("squares", moving)
            torch._foreach_addcmul_(squares, gradients, gradients, run["lam"] ** 2)
            roots = torch._foreach_rsqrt(squares)
            torch._foreach_mul_(roots, gradients)
            directions |= zip(moving, roots, strict=True)
        self._move(given, points, directions)
        # u is λ times the directions, and its sketch has a weight of λ √t.
        self._climb(self._sketch(directions), run["lam"] ** 2 * math.sqrt(run["steps"]))
        return True

    def _pull(self, given: list[Given], points: Points) -> tuple[list[float], Tensors]:
        """Add λ g to its sum; return λ and g·(o − x) of every parameter."""
        weights, dots = [], []
        for group, params, gradients in given:
            weight = self.run["lam"] * float(group["lr"])
            torch._foreach_add_(self._get("weighted_sum", params), gradients, alpha=weight)
            ahead = torch._foreach_sub(self._get("origin", params), [points[p] for p in params])
            for g, way in zip(gradients, ahead, strict=True):
                dots.append(torch.dot(g.reshape(-1), way.reshape(-1)))
                weights.append(weight)
        return weights, dots

    def _begin(self, points: Points) -> None:
        """Set the first distance, and the state of parameters that are new."""
        run = self.run
        if run["lam"] == 0.0:
            like, xs = next(iter(points)), list(points.values())
            rms = norm(xs, like) / math.sqrt(max(1, sum(p.numel() for p in points)))
            largest = norm(xs, like, largest=True)
            first = run["first"] or float(rule.first_distance(np, largest, rms))
            run["rbar"] = float(first if run["alpha"] is None else run["alpha"])
            run["lam"] = first if run["alpha"] is None else 1.0
        for p in points:
            if "origin" not in self.state[p]:
                x = p.detach().to(wide(p.dtype), copy=True)
                # The smallest normal number, so that 0/√Q is 0.
                tiny = torch.full_like(x, torch.finfo(x.dtype).tiny)
                new = {"origin": x, "before": x.clone(), "squares": tiny}
                self.state[p].update(new, weighted_sum=torch.zeros_like(x))

    def _search(self, weights: list[float], dots: Tensors, points: Points) -> None:
        """Update r̄ and λ, and restart from the mean point if the run has arrived."""
        run, params, t = self.run, list(points), self.steps
        mean = "average" if run["output"] == "recent" else "mean"
        if mean == "mean":
            self._lerp(mean, list(points.values()), rule.newest_share(t))
        means, moved = self._get(mean, params), 0.0
        if rule.ends_epoch(t):
            before = self._get("before", params)
            moved = norm(list(torch._foreach_sub(means, before)), params[0], largest=True)
            torch._foreach_copy_(before, means)
        pulls = self._get("weighted_sum", params)
        sizes = [pull.sum() for pull in torch._foreach_abs(pulls)]
        found = numbers([*dots, *sizes], params[0])
        numerator = sum(map(mul, weights, found))
        size = sum(found[len(dots) :])
        scale = Scale(run["rbar"], run["lam"], run["numerator"] + numerator, run["margin"])
        arrived, scale = rule.update_scale(np, scale, size, moved)
        run.update({name: float(value) for name, value in scale._asdict().items()})
        if arrived:
            torch._foreach_copy_(self._get("origin", params), means)
            torch._foreach_zero_(pulls)
        farthest = farthest_of(float) if means[0].dtype == torch.float64 else FARTHEST
        if run["lam"] > farthest:
            raise ValueError(
                f"steps exceed {farthest:.0e} at sample {self.samples + 1}: the loss falls without "
                "end, or its gradient never changes; the parameters no longer move"
            )

    def _move(self, given: list[Given], points: Points, directions: Points) -> None:
        """Subtract r̄ u/√κ, which is at most r̄, and decay."""
        run = self.run
        factor = run["rbar"] * run["lam"] / math.sqrt(run["kappa"])
        for group, params, _ in given:
            lr, decay = float(group["lr"]), float(group["weight_decay"])
            if decay:
                torch._foreach_mul_([points[p] for p in params], 1.0 - lr * self.rate * decay)
            moved = [points[p] for p in params]
            torch._foreach_add_(moved, [directions[p] for p in params], alpha=-lr * factor)
            for p in params:
                if points[p].dtype != p.dtype:
                    local(p).copy_(points[p])
                    self.state[p]["lost"] = points[p].sub_(local(p))

    def _point(self, p: torch.Tensor) -> torch.Tensor:
        """The parameter before it was rounded; the parameter itself from float32 on.

        The first steps are shorter than the spacing of narrower numbers: rounded, they would be
        lost, and the distance would never grow.
        """
        if p.dtype == wide(p.dtype):
            return local(p)
        point, lost = local(p).to(wide(p.dtype)), self.state[p].get("lost")
        return point if lost is None else point + lost

    def _get(self, name: str, params: Tensors) -> Tensors:
        return [local(self.state[p][name]) for p in params]

    def _levels(self) -> dict[str, torch.Tensor]:
        """Return the state of the first parameter, which also has that of the sketch."""
        params = self._parameters()
        state, like = self.state[params[0]], local(params[0])
        width = rule.width_of(sum(p.numel() for p in params))
        if "carry" not in state:
            zeros = torch.zeros(LEVELS + 1, width, dtype=sums_dtype(like.device)).to(like.device)
            state.update(carry=zeros[0].clone(), halves=zeros[1:].clone(), totals=zeros[:, 0])
        more = width - len(state["carry"])
        if more:  # parameters were added
            for name in ("carry", "halves"):
                state[name] = torch.nn.functional.pad(state[name], (0, more))
        found: dict[str, torch.Tensor] = state
        return found

    def _sketch(self, directions: Points) -> torch.Tensor:
        """Return the sketch of the directions, zero for parameters that do not move."""
        params, parts, at = self._parameters(), {}, 0
        for p in params:
            if p in directions:
                parts[at + first_entry(p)] = directions[p]
            at += p.numel()
        return summed(sketch(parts, rule.stride_of(at), self._levels()["carry"]), params[0])

    def _climb(self, sketched: torch.Tensor, weight: float) -> None:
        """Add the latest sketch to the levels, and update κ at the end of a block."""
        run, levels = self.run, self._levels()
        totals = levels["totals"]
        totals[-1].add_(torch.dot(sketched, sketched), alpha=weight**2)
        levels["carry"].add_(sketched, alpha=weight)
        if run["steps"] % run["block"] == 0:
            blocks, level = run["steps"] // run["block"], 0
            carry, halves = levels["carry"], levels["halves"]
            while blocks >> level & 1 == 0:  # a binary counter: see `climb` of the rule
                totals[level] += (carry - halves[level]).square().sum()
                carry = carry + halves[level]
                level += 1
            halves[level] = carry
            levels["carry"].zero_()
            run["kappa"] = float(rule.inflation(torch, totals[:-1], totals[-1]))
