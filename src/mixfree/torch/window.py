"""The signed running sum over a level, in one buffer per parameter."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.stream import Given, StreamOptimizer, StreamRun
from mixfree.torch.tensors import largest, norm, step_along, wide


@dataclass(slots=True)
class WindowRun(StreamRun):
    """The position in a level; its sum is among the parameters' buffers."""

    seen: int = 0  # samples of the level so far
    length: int = 1  # samples of the level when it is complete

    def check(self, what: str) -> None:
        """Check that the level is not complete."""
        StreamRun.check(self, what)
        if not 0 <= self.seen < self.length:
            raise ValueError(
                f"state of the {what} does not fit: {self.seen} of {self.length} samples in the "
                "level"
            )


class WindowOptimizer(StreamOptimizer):
    """Sums the gradients of a level with their signs; parameters move when it is complete.

    Parameters
    ----------
    law
        The law of the levels, from which all ranks of a distributed run draw the same.
    """

    buffers: ClassVar[tuple[str, ...]] = (*StreamOptimizer.buffers, "sum")
    _run: WindowRun

    def __init__(
        self,
        params: ParamsT,
        defaults: dict[str, Any],
        law: Law,
        output: str,
        check_finite: str,
        run: WindowRun,
    ) -> None:
        self.law = law
        settings = {name: getattr(law, name) for name in ("levels", "weights", "horizon", "seed")}
        super().__init__(params, defaults, settings, output, check_finite, run)

    def _sign(self, group: dict[str, Any]) -> float:
        return -1.0 if group["maximize"] else 1.0

    @abstractmethod
    def _move(self, scale: float) -> None:
        """Step along ``scale`` times the sums."""

    @property
    def pending(self) -> int:
        """Samples of the level that is not complete yet."""
        return self._run.seen

    def _take(self, given: list[Given]) -> bool:
        gradients = [g for each in given for g in each.gradients]
        run = self._run
        if gradients:
            left_out = self._refuse(norm(gradients), given, largest(gradients))
        if run.seen == 0:
            run.length = self.law.length(run.steps, run.samples)
        if gradients:
            self._add(given, self.law.weight(run.seen, run.length), left_out)
        run.samples += 1
        run.seen += 1
        if run.seen < run.length:
            return False
        run.seen = 0
        self._count_step()
        self._move(self.law.scale(run.length))
        sums = [self.state[p]["sum"] for p in self._parameters() if "sum" in self.state[p]]
        if sums:
            torch._foreach_zero_(sums)
        return True

    def _add(self, given: list[Given], weight: float, left_out: torch.Tensor) -> None:
        for group, params, gradients in given:
            for p in params:
                if "sum" not in self.state[p]:
                    self.state[p]["sum"] = torch.zeros_like(p, dtype=wide(p.dtype))
            sums = [self.state[p]["sum"] for p in params]
            step_along(sums, gradients, -weight * self._sign(group), left_out)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "law": self.law}
