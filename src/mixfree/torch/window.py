"""The signed running sum over a level, in one buffer per parameter."""

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.stream import Given, StreamOptimizer
from mixfree.torch.tensors import local, norm, wide


class WindowOptimizer(StreamOptimizer):
    """Sums the gradients of a level with their signs; parameters move when it is complete.

    The law of the levels is in the groups, and all ranks of a distributed run draw the same.
    """

    def __init__(
        self, params: ParamsT, defaults: dict[str, Any], law: Law, output: str, **counts: Any
    ) -> None:
        names = ("levels", "weights", "horizon", "seed")
        defaults = {**defaults, **{name: getattr(law, name) for name in names}}
        super().__init__(params, defaults, output, pending=0, length=1, **counts)

    @property
    def law(self) -> Law:
        """The law of the levels."""
        run = self.run
        return _law(run["levels"], run["weights"], run["horizon"], run["seed"])

    @property
    def pending(self) -> int:
        """Samples of the level that is not complete yet."""
        return int(self.run["pending"])

    @abstractmethod
    def _move(self, scale: float) -> None:
        """Step along ``scale`` times the sums."""

    def _take(self, given: list[Given]) -> bool | None:
        gradients = [g for each in given for g in each.gradients]
        if gradients and not math.isfinite(norm(gradients, given[0].params[0])):
            return None
        run, law = self.run, self.law
        if run["pending"] == 0:
            run["length"] = law.length(run["steps"], run["samples"])
        for each in given:
            self._add(each, law.weight(run["pending"], run["length"]))
        run["pending"] += 1
        if run["pending"] < run["length"]:
            return False
        run["pending"] = 0
        self._count_step()
        self._move(law.scale(run["length"]))
        for p in self._parameters():
            if "sum" in self.state[p]:
                self.state[p]["sum"].zero_()
        return True

    def _add(self, given: Given, weight: float) -> None:
        for p in given.params:
            if "sum" not in self.state[p]:
                self.state[p]["sum"] = torch.zeros_like(p, dtype=wide(p.dtype))
        sums = [local(self.state[p]["sum"]) for p in given.params]
        gradients = [g.to(s.dtype) for g, s in zip(given.gradients, sums, strict=True)]
        torch._foreach_add_(sums, gradients, alpha=weight)


@lru_cache(maxsize=8)
def _law(levels: int | None, weights: str, horizon: int | None, seed: int) -> Law:
    return Law(levels, weights, horizon, seed)
