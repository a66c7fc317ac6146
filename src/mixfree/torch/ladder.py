"""The ladder for PyTorch: vector updates around the scalar rule of the reference."""

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from mixfree import steps
from mixfree.dropins import farthest
from mixfree.steps import ladder_rule as rule
from mixfree.steps.ladder_rule import BLOCK, LEVELS, MARGIN, SAMPLE, WIDTH, Numbers, Scale
from mixfree.steps.profile import CorrelationScale, Profile
from mixfree.torch.stream import Given, StreamOptimizer, check_multiplier
from mixfree.torch.tensors import Sample, Tensors, local, norm, sums_dtype, wide


class Ladder(StreamOptimizer):
    """AdaGrad with its own distance and one factor for the correlation of gradients.

    It needs no learning rate: see :class:`mixfree.steps.Ladder`, its reference. The parameters
    of all groups are one point. State: two numbers per weight, three with ``output="weighted"`` or
    ``"average"``, and less than 430,000 in all.

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

    _sampled = 0  # number of parameters for which the samples were made

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
        totals = self._whole(self._parameters())["totals"].double().cpu().numpy()
        state: Any = SimpleNamespace(total=float(totals[-1]), totals=totals[:-1])
        return steps.Ladder(block=self.run["block"]).profile(state, self.steps)

    def correlation_scale(self) -> CorrelationScale:
        """Return the number of samples over which gradients stay correlated."""
        return self.profile().correlation_scale()

    def _take(self, given: list[Given]) -> bool | None:
        params = self._parameters()
        whole, points = self._whole(params), [self._point(p) for p in params]
        gradients: list[Any] = [None] * len(points)
        for each in given:
            for i, g in zip(each.places, each.gradients, strict=True):
                gradients[i] = g if g.dtype == points[i].dtype else g.to(points[i].dtype)
        for i, x in enumerate(points):
            if gradients[i] is None:
                gradients[i] = x.new_zeros(()).expand_as(x)  # without memory of its own
        sampled = self._sample.of(gradients)
        complete, there = self._sample.complete, [g for each in given for g in each.gradients]
        if not math.isfinite(norm([sampled] if complete else there, params[0])):
            return None
        self._count_step()
        if self.run["alpha"] is None:
            self._search(whole, sampled, points)
        for each in given:
            self._move(each, [gradients[i] for i in each.places], [points[i] for i in each.places])
        self._climb(whole, [sampled] if complete else gradients, params)
        return True

    def _search(self, whole: dict[str, Any], g: torch.Tensor, points: Tensors) -> None:
        """Update r̄ and λ, and restart from the mean point if the run has arrived."""
        run, t, moved = self.run, self.steps, 0.0
        mean = "average" if run["output"] == "recent" else "mean"
        if mean == "mean":
            self._lerp(mean, rule.newest_share(t))
        if {float(group["lr"]) for group in self.param_groups} != {1.0}:
            rates = [float(group["lr"]) for group in self.param_groups for _ in group["params"]]
            pairs = zip(points, rates, strict=True)
            g = g * self._sample.of([x.new_full((), rate).expand_as(x) for x, rate in pairs])
        x = self._sample.of(points)
        size, along = self._pull(whole, g, x)
        if rule.ends_epoch(t):
            means = self._sample.of([self.state[p][mean] for p in self._parameters()])
            moved = float(rule.movement(means, whole["before"], x))
            whole["before"] = means.clone()
        scale = Scale(run["rbar"], run["lam"], run["numerator"] + along, run["margin"])
        arrived, scale = rule.update_scale(Numbers, scale, size, moved)
        run.update(scale._asdict())
        if arrived:
            whole["origin"] = means.clone()
            whole["weighted_sum"].zero_()
        most = farthest(points[0].dtype == torch.float64)
        if run["lam"] > most:
            raise ValueError(
                f"steps exceed {most:.0e} at sample {self.samples + 1}: the loss falls without "
                "end, or its gradient never changes; the parameters no longer move"
            )

    def _pull(self, whole: dict[str, Any], g: torch.Tensor, x: torch.Tensor) -> list[float]:
        """Do as :func:`mixfree.steps.ladder_rule.pull` without masks, which take torch long."""
        sums, away = whole["weighted_sum"], whole["origin"] - x
        held = sums.sign().abs_()  # 1 where there were gradients but no movement, else 0
        held.addcmul_(held, away.sign().abs_(), value=-1.0)
        sums.add_(g, alpha=self.run["lam"])
        sizes = sums.abs()
        sizes.addcmul_(sizes, held, value=-1.0)
        size, along = torch.stack([sizes.sum(), torch.dot(g, away)]).tolist()
        return [size, self.run["lam"] * along]

    def _move(self, given: Given, gradients: Tensors, at: Tensors) -> None:
        """Subtract r̄ u/√κ, which is at most r̄, and decay."""
        run, lr, decay = self.run, float(given.group["lr"]), float(given.group["weight_decay"])
        factor = -lr * run["rbar"] * run["lam"] / math.sqrt(run["kappa"])
        if decay:
            torch._foreach_mul_(at, 1.0 - lr * self.rate * decay)
        squares = [local(self.state[p]["squares"]) for p in given.params]
        torch._foreach_addcmul_(squares, gradients, gradients, run["lam"] ** 2)
        torch._foreach_addcmul_(at, gradients, torch._foreach_rsqrt(squares), factor)
        self._store(given.params, at)

    def _climb(self, whole: dict[str, Any], gradients: Tensors, params: Tensors) -> None:
        """Add the sketch of λ√t·u to the levels, and update κ at the end of a block."""
        run, carry, totals = self.run, whole["carry"], whole["totals"]
        roots = self._sketch.of([self.state[p]["squares"] for p in params]).rsqrt()
        u = self._sketch.of(gradients) * roots
        weight = run["lam"] ** 2 * math.sqrt(run["steps"])
        totals[-1].add_(torch.dot(u, u), alpha=weight**2)
        carry.add_(u, alpha=weight)
        if run["steps"] % run["block"] == 0:
            rule.climb(whole["halves"], totals, carry, run["steps"] // run["block"])
            carry.zero_()
            run["kappa"] = float(rule.inflation(totals[:-1], totals[-1]))

    def _whole(self, params: Tensors) -> dict[str, Any]:
        """Return the state of the first parameter, which also has that of the whole vector."""
        run = self.run
        whole: dict[str, Any] = self.state[params[0]]
        if self._sampled != len(params):
            self._sample, self._sketch = Sample(params, SAMPLE), Sample(params, WIDTH)
            self._sampled = len(params)
        fresh = [p for p in params if "squares" not in self.state[p]]
        if not fresh:
            return whole
        points = [self._point(p) for p in params]
        entries = sum(p.numel() for p in params)
        if run["lam"] == 0.0:
            largest = norm(points, params[0], largest=True)
            rms = norm(points, params[0]) / math.sqrt(max(1, entries))
            scale = rule.first_scale(Numbers, run["alpha"], run["first"], largest, rms)
            run.update(rbar=float(scale.rbar), lam=float(scale.lam))
        old, at = entries - sum(p.numel() for p in fresh), self._sample.of(points)
        levels = at.new_zeros((LEVELS + 1, self._sketch.width), dtype=sums_dtype(at.device))
        new = {"origin": at.clone(), "before": at.clone(), "weighted_sum": torch.zeros_like(at)}
        new |= {"carry": levels[0].clone(), "halves": levels[1:].clone()}
        for name, value in new.items():
            most = WIDTH if name in ("carry", "halves") else SAMPLE
            if old and rule.stride_of(old, most) == rule.stride_of(entries, most):
                value = torch.cat([whole[name], value[..., whole[name].shape[-1] :]], -1)
            elif most == SAMPLE:  # other coordinates than before: the search begins anew
                run["numerator"] = 0.0
            whole[name] = value
        whole.setdefault("totals", levels.new_zeros(LEVELS + 1))
        for p in fresh:
            # The smallest normal number, so that 0/√Q is 0.
            x = torch.zeros_like(p, dtype=wide(p.dtype))
            self.state[p]["squares"] = x.fill_(torch.finfo(x.dtype).tiny)
        return whole
