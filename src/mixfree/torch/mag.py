"""MAG for PyTorch: Algorithm 1 with a level's samples as they come."""

import math
from typing import Any

from mixfree.base.checks import check_positive
from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.stream import RUN
from mixfree.torch.tensors import move, norm
from mixfree.torch.window import WindowOptimizer


class MAG(WindowOptimizer):
    """MLMC gradients with AdaGrad-Norm steps; the loop around it stays as it is.

    The norm in the step runs over the parameters of all groups: there is one root for all.

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
        Climb instead.
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

    def __init__(
        self,
        params: Any,
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
        super().__init__(params, defaults, law, output)

    def _start(self) -> dict[str, Any]:
        return {**super()._start(), "root": 0.0}

    def _move(self, scale: float) -> None:
        summed = [
            (group, [p for p in group["params"] if "sum" in self.state[p]])
            for group in self.param_groups
        ]
        sums = [[self.state[p]["sum"] for p in params] for _, params in summed]
        run = self.state[RUN]
        run["root"] = math.hypot(run["root"], scale * norm([s for each in sums for s in each]))
        for (group, params), directions in zip(summed, sums, strict=True):
            move(params, directions, scale * group["alpha"] * float(group["lr"]), run["root"])

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        check_positive(group["alpha"], "alpha")
