"""The signed running sum over a level, in one buffer of the parameters' size."""

from abc import abstractmethod
from typing import Any

import torch

from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.stream import RUN, Given, StreamOptimizer
from mixfree.torch.tensors import norm


class WindowOptimizer(StreamOptimizer):
    """Adds up the gradients of a level with their signs; parameters stand still until it is full.

    Parameters
    ----------
    law
        The law of the levels; every rank of a distributed run draws the same from it.
    """

    def __init__(self, params: Any, defaults: dict[str, Any], law: Law, output: str) -> None:
        self.law = law
        settings = {name: getattr(law, name) for name in ("levels", "weights", "horizon", "seed")}
        super().__init__(params, defaults, settings, output)

    def _start(self) -> dict[str, Any]:
        return {**super()._start(), "seen": 0, "length": 1}

    def _sign(self, group: dict[str, Any]) -> float:
        return -1.0 if group["maximize"] else 1.0

    @abstractmethod
    def _move(self, scale: float) -> None:
        """Step along ``scale`` times the sums."""

    @property
    def pending(self) -> int:
        """Samples of the level that is not complete yet."""
        return int(self.state[RUN]["seen"])

    def _take(self, given: list[Given]) -> bool:
        self._check_size(norm([g for each in given for g in each.gradients]), given)
        run = self.state[RUN]
        if run["seen"] == 0:
            run["length"] = self.law.length(run["steps"], run["samples"])
        length = run["length"]
        weight = self.law.weight(run["seen"], length) if length > 1 else 1.0
        self._add(given, weight)
        run["samples"] += 1
        run["seen"] += 1
        if run["seen"] < length:
            return False
        run["seen"] = 0
        self._count_step()
        self._move(self.law.scale(length) if length > 1 else 1.0)
        sums = [self.state[p]["sum"] for p in self._parameters() if "sum" in self.state[p]]
        if sums:
            torch._foreach_zero_(sums)
        return True

    def _add(self, given: list[Given], weight: float) -> None:
        for group, params, gradients in given:
            sums = self._buffers("sum", params)
            torch._foreach_add_(sums, gradients, alpha=weight * self._sign(group))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "law": self.law}
