"""MAG for PyTorch: Algorithm 1, fed with one sample per call."""

import math
from dataclasses import dataclass
from typing import Any

from torch.optim.optimizer import ParamsT

from mixfree.base.checks import check_positive
from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.tensors import move, norm
from mixfree.torch.window import WindowOptimizer, WindowRun


@dataclass(slots=True)
class MAGRun(WindowRun):
    """The level, and the accumulator of AdaGrad-Norm."""

    root: float = 0.0  # of the sum of the squared norms of all directions

    def check(self, what: str) -> None:
        """A root is not negative."""
        WindowRun.check(self, what)
        if self.root < 0.0:
            raise ValueError(f"state of the {what} does not fit: root is {self.root}")


class MAG(WindowOptimizer):
    """MLMC gradients with AdaGrad-Norm steps; the training loop stays as it is.

    The norm in the step runs over the parameters of all groups, which share one accumulator.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``alpha``, ``lr`` and ``maximize``.
    levels, weights, horizon, seed
        As in :class:`mixfree.MLMC`.
    alpha
        Scale of the steps.
    lr
        Multiplies ``alpha``; it is there for learning-rate schedulers.
    maximize
        Maximise the objective instead of minimising it.
    output
        ``"average"``, ``"weighted"`` or ``"last"``: what :meth:`averaged` swaps in.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = MAG(model.parameters(), levels=3)
    >>> for x, y in [(torch.ones(2), 1.0), (torch.zeros(2), 0.0)] * 5:
    ...     opt.zero_grad()
    ...     (model(x) - y).square().sum().backward()
    ...     opt.step()
    >>> opt.samples, opt.steps, opt.stepped
    (10, 2, True)
    """

    _run: MAGRun

    def __init__(
        self,
        params: ParamsT,
        levels: int | None = 5,
        weights: str = "exact",
        alpha: float = 1.0,
        seed: int = 0,
        *,
        horizon: int | None = None,
        lr: float = 1.0,
        maximize: bool = False,
        output: str = "average",
    ) -> None:
        law = Law(levels, weights, horizon, seed)
        defaults = {"alpha": alpha, "lr": lr, "maximize": maximize}
        super().__init__(params, defaults, law, output, MAGRun())

    def _move(self, scale: float) -> None:
        summed = [
            (group, [p for p in group["params"] if "sum" in self.state[p]])
            for group in self.param_groups
        ]
        sums = [[self.state[p]["sum"] for p in params] for _, params in summed]
        run = self._run
        run.root = math.hypot(run.root, scale * norm([s for each in sums for s in each]))
        for (group, params), directions in zip(summed, sums, strict=True):
            move(params, directions, scale * group["alpha"] * float(group["lr"]), run.root)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        check_positive(group["alpha"], "alpha")
