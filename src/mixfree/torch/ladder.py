"""The ladder for PyTorch: the reference's step, fed with the gradient or with a sketch of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import ParamsT

from mixfree import steps
from mixfree.base.arithmetic import Array, norm
from mixfree.dropins import Sketch, is_exact
from mixfree.steps import Distance, Profile
from mixfree.steps.ladder import BLOCK, LadderState
from mixfree.torch.stream import Given, StreamOptimizer, StreamRun
from mixfree.torch.tensors import Tensors, add


@dataclass(slots=True)
class LadderRun(StreamRun):
    """The state of the reference's step, and what its vectors stand for."""

    tensors: int = 0  # parameters in the vectors: those added since join at the next step
    sketched: int = 0  # entries of the model at the first step; zero if its totals are exact
    ladder: LadderState | None = None  # none before the first step

    def check(self, what: str) -> None:
        """Counts are not negative."""
        StreamRun.check(self, what)
        if self.tensors < 0 or self.sketched < 0:
            raise ValueError(f"state of the {what} does not fit: a count is negative")


class Ladder(StreamOptimizer):
    """AdaGrad whose accumulator includes the variance inflation of dyadic blocks.

    It needs no step size. The norms run over the parameters of all groups. A model of at most
    ``16·sketch`` entries has the totals of :class:`mixfree.steps.Ladder` itself, computed on the
    host; a larger one has those of a sketch of its gradients, so that a level takes ``sketch``
    numbers and not one per parameter.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``lr`` and ``maximize``.
    alpha, block, max_levels, distance
        As in :class:`mixfree.steps.Ladder`.
    per_coordinate
        One rate per coordinate, or one for all. ``None``: one per coordinate where totals are
        exact. ``True`` makes them exact at any size, at the cost of one copy of the parameters
        per level.
    sketch
        Numbers per level; ``None`` makes totals exact at any size.
    seed
        Seed of the sketch.
    lr
        Multiplies the step; it is there for learning-rate schedulers.
    maximize
        Maximise the objective instead of minimising it.
    output
        ``"weighted"``, ``"average"`` or ``"last"``: what :meth:`averaged` swaps in.

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

    _run: LadderRun

    def __init__(
        self,
        params: ParamsT,
        alpha: float | None = None,
        per_coordinate: bool | None = None,
        block: int = BLOCK,
        max_levels: int | None = None,
        distance: Distance | None = None,
        sketch: int | None = 1024,
        seed: int = 0,
        *,
        lr: float = 1.0,
        maximize: bool = False,
        output: str = "weighted",
    ) -> None:
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
            "of": distance.of,
            "sketch": sketch,
            "seed": seed,
        }
        defaults = {"lr": lr, "maximize": maximize}
        super().__init__(params, defaults, settings, output, LadderRun())

    def profile(self) -> Profile:
        """How correlated the gradients are at each scale: see :class:`mixfree.steps.Ladder`."""
        run = self._run
        if run.ladder is None:
            raise ValueError("there is no profile before the first step")
        return self._rule(run.sketched).profile(run.ladder, run.steps)

    def _take(self, given: list[Given]) -> bool:
        run, params = self._run, self._parameters()
        gradients = [_ascent(p, group) for group in self.param_groups for p in group["params"]]
        sketched = self._entries_to_sketch(params) if run.ladder is None else run.sketched
        vector = self._vector(gradients, sketched)
        self._check_size(norm(vector), given)
        rule, ladder = self._rule(sketched), self._ladder_of(params, sketched)
        self._count_step()
        run.samples += 1
        x = self._vector(params, sketched) if rule.refreshes(run.steps) else vector
        displacement = rule.move(ladder, vector, run.steps, x)
        if sketched:
            # The displacement is a multiple of the sketch; the step is that of the gradient.
            top = int(np.abs(vector).argmax())
            self._move(params, gradients, displacement[top] / vector[top] if vector[top] else 0.0)
        else:
            self._move(params, _split(displacement, params), 1.0)
        return True

    def _move(self, params: Tensors, directions: Tensors, size: float) -> None:
        at = 0
        for group in self.param_groups:
            end = at + len(group["params"])
            add(params[at:end], directions[at:end], -size * float(group["lr"]))
            at = end

    def _entries_to_sketch(self, params: Tensors) -> int:
        """Entries of the model; zero if it is small enough not to be sketched."""
        entries = sum(p.numel() for p in params)
        return 0 if self._is_exact(entries) else entries

    def _is_exact(self, entries: int) -> bool:
        return is_exact(entries, self.settings["sketch"], self.settings["per_coordinate"])

    def _ladder_of(self, params: Tensors, sketched: int) -> LadderState:
        """The state of the step, in which every parameter is: begun, or extended, if need be."""
        run, rule = self._run, self._rule(sketched)
        known, run.tensors = run.tensors, len(params)
        if run.ladder is None:
            run.sketched = sketched
            run.ladder = rule.start(self._vector(params, sketched))
        elif known < len(params) and sketched:
            # Parameters added since have stood where they are, with gradients of zero.
            new = [p * (i >= known) for i, p in enumerate(params)]
            run.ladder.distance.shift(self._vector(new, sketched))
        elif known < len(params):
            rule.extend(run.ladder, self._vector(params[known:], 0))
        return run.ladder

    def _rule(self, sketched: int) -> steps.Ladder:
        """The step part: one rate per coordinate only where totals are exact."""
        return self._sketched_rule if sketched else self._exact_rule

    def _vector(self, tensors: Tensors, sketched: int) -> Array:
        """The tensors as one vector, or its sketch, on the host: one transfer."""
        if sketched:
            size, seed = self.settings["sketch"], self.settings["seed"]
            sketch, table = _sketch(size, sketched, seed, tensors[0].device)
            flat = sketch.of(tensors, torch.cat, table)
        else:
            flat = torch.cat([t.reshape(-1) for t in tensors])
        vector: Array = flat.detach().cpu().double().numpy()
        return vector

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
        return {**super().__getstate__(), **rules}


def _split(vector: Array, params: Tensors) -> list[torch.Tensor]:
    """A vector as tensors like the parameters."""
    parts = torch.split(torch.from_numpy(vector), [p.numel() for p in params])
    return [q.to(p.device, p.dtype).view_as(p) for q, p in zip(parts, params, strict=True)]


def _ascent(p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """The gradient of what is minimised; zero where there is none."""
    if p.grad is None:
        return torch.zeros_like(p)
    return -p.grad if group["maximize"] else p.grad


@lru_cache(maxsize=8)
def _sketch(
    size: int, entries: int, seed: int, device: torch.device
) -> tuple[Sketch, torch.Tensor]:
    sketch = Sketch(size, entries, seed)
    return sketch, torch.from_numpy(sketch.table).to(device)
