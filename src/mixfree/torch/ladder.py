"""The ladder for PyTorch: the reference's step, fed with the gradient or with a sketch of it."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from mixfree import steps
from mixfree.base.arithmetic import Array, norm
from mixfree.dropins.sketch import Sketch, is_exact
from mixfree.steps import Distance, Profile
from mixfree.steps.ladder import BLOCK
from mixfree.torch.stream import RUN, Given, StreamOptimizer
from mixfree.torch.tensors import Tensors, add, as_arrays, as_tensors


class Ladder(StreamOptimizer):
    """AdaGrad that pays for correlation at every scale, and finds its own step size.

    The norms run over the parameters of all groups. A model of at most ``16·sketch`` entries has
    the totals of :class:`mixfree.steps.Ladder` itself, computed on the host; a larger one
    those of a sketch of its gradients, so that a level costs ``sketch`` numbers and not one
    a parameter.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``lr`` and ``maximize``.
    alpha, block, max_levels, distance
        As in :class:`mixfree.steps.Ladder`.
    per_coordinate
        One rate a coordinate, or one for all. ``None``: one a coordinate where totals are exact.
        ``True`` makes them exact at any size, at the cost of one copy of the parameters a level.
    sketch
        Numbers a level; ``None`` makes totals exact at any size.
    seed
        Of the sketch.
    lr
        Multiplies the step; it is there for learning-rate schedulers.
    maximize
        Climb instead.
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

    def __init__(
        self,
        params: Any,
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
        self.rule = steps.Ladder(alpha, bool(per_coordinate), block, max_levels, distance)
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
        super().__init__(params, {"lr": lr, "maximize": maximize}, settings, output)

    def profile(self) -> Profile:
        """How correlated the gradients are at each scale: see :class:`mixfree.steps.Ladder`."""
        run = self.state[RUN]
        if run["ladder"] is None:
            raise ValueError("there is no profile before the first step")
        return self.rule.profile(run["ladder"], run["steps"])

    def _start(self) -> dict[str, Any]:
        return {**super()._start(), "tensors": 0, "sketched": 0, "ladder": None}

    def _take(self, given: list[Given]) -> bool:
        run, params = self.state[RUN], self._parameters()
        gradients = [self._ascent(p, group) for group in self.param_groups for p in group["params"]]
        sketched = self._entries_to_sketch(params) if run["ladder"] is None else run["sketched"]
        vector = self._vector(gradients, sketched)
        self._check_size(norm(vector), given)
        if run["ladder"] is None:
            self._begin(params, sketched)
        self._include_new(params)
        self._count_step()
        run["samples"] += 1
        x = self._vector(params, sketched) if self.rule.refreshes(run["steps"]) else vector
        displacement = self.rule.move(run["ladder"], vector, run["steps"], x)
        if sketched:
            # The displacement is a multiple of the sketch; the step is that of the gradient.
            top = int(np.abs(vector).argmax())
            self._move(params, gradients, displacement[top] / vector[top] if vector[top] else 0.0)
        else:
            self._move(params, self._split(displacement, params), 1.0)
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
        settings = self.settings
        exact = is_exact(entries, settings["sketch"], settings["per_coordinate"])
        return 0 if exact else entries

    def _begin(self, params: Tensors, sketched: int) -> None:
        run = self.state[RUN]
        self.rule = self._rule_for(sketched)
        run["sketched"], run["tensors"] = sketched, len(params)
        run["ladder"] = self.rule.start(self._vector(params, sketched))

    def _include_new(self, params: Tensors) -> None:
        """Parameters added since have stood where they are, with gradients of zero."""
        run = self.state[RUN]
        known, run["tensors"] = run["tensors"], len(params)
        if known == len(params):
            return
        if run["sketched"]:
            parts = [p * (i >= known) for i, p in enumerate(params)]
            run["ladder"].distance.shift(self._vector(parts, run["sketched"]))
        else:
            self.rule.extend(run["ladder"], self._vector(params[known:], 0))

    def _vector(self, tensors: Tensors, sketched: int) -> Array:
        """The tensors as one vector, or its sketch, on the host: one transfer."""
        if sketched:
            settings = self.settings
            sketch, table = _sketch(
                settings["sketch"], sketched, settings["seed"], tensors[0].device
            )
            flat = sketch.of(tensors, torch.cat, table)
        else:
            flat = torch.cat([t.reshape(-1) for t in tensors])
        return flat.detach().cpu().double().numpy()

    @staticmethod
    def _split(vector: Array, params: Tensors) -> list[torch.Tensor]:
        parts = torch.from_numpy(vector).split([p.numel() for p in params])
        return [q.to(p.device, p.dtype).view_as(p) for q, p in zip(parts, params, strict=True)]

    @staticmethod
    def _ascent(p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        if p.grad is None:
            return torch.zeros_like(p)
        return -p.grad if group["maximize"] else p.grad

    def _rule_for(self, sketched: int) -> steps.Ladder:
        """The step part: one rate per coordinate only where totals are exact."""
        per_coordinate = not sketched and self.settings["per_coordinate"] is not False
        return replace(self.rule, per_coordinate=per_coordinate)

    def _pack(self, run: Mapping[str, Any]) -> dict[str, Any]:
        ladder = run["ladder"]
        return {**run, "ladder": None if ladder is None else as_tensors(ladder.plain())}

    def _unpack(self, run: Mapping[str, Any]) -> dict[str, Any]:
        if run["ladder"] is None:
            return dict(run)
        known, sketched = self._parameters()[: run["tensors"]], run["sketched"]
        rule = self._rule_for(sketched)
        fresh = rule.start(self._vector(known, sketched))
        found = {**run, "ladder": fresh.restored(as_arrays(run["ladder"]), "ladder")}
        self.rule = rule
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "rule": self.rule}


@lru_cache(maxsize=8)
def _sketch(
    size: int, entries: int, seed: int, device: torch.device
) -> tuple[Sketch, torch.Tensor]:
    sketch = Sketch(size, entries, seed)
    return sketch, torch.from_numpy(sketch.table).to(device)
