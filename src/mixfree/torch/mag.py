"""MAG for PyTorch: Algorithm 1, fed with one sample per call."""

import math
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from mixfree.base.checks import check_positive
from mixfree.gradients.mlmc import MLMC as Window
from mixfree.torch.mlmc import WindowOptimizer
from mixfree.torch.stream import check_multiplier
from mixfree.torch.tensors import local, norm


class MAG(WindowOptimizer):
    """MLMC gradients with AdaGrad-Norm steps, in an unchanged training loop.

    Norms run over the parameters of all groups, which share one accumulator.

    Parameters
    ----------
    params
        As for any torch optimiser; a group may have its own ``alpha``, ``lr``, ``weight_decay`` and
        ``maximize``.
    levels, weights, horizon, seed
        As in :class:`mixfree.MLMC`.
    alpha
        Scale of the steps.
    lr, weight_decay, maximize, output
        As in :class:`Ladder`; the rate of the decay is ``alpha`` times ``lr`` over the accumulator.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.zeros(1))
    >>> opt = MAG([w], levels=1)
    >>> for _ in range(4):
    ...     w.grad = torch.tensor([-1.0])
    ...     opt.step()
    >>> opt.steps, opt.eval(), w.item(), opt.train(), w.item()
    (2, None, 0.5, None, 1.7071...)
    """

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
        weight_decay: float = 0.0,
        maximize: bool = False,
        output: str = "average",
    ) -> None:
        check_multiplier(lr)
        window = Window(levels, weights, horizon, seed)
        defaults = {"alpha": alpha, "lr": lr, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, window, output, root=0.0)

    def _move(self, scale: float) -> None:
        every, states = self._parameters(), self.state
        sums = {p: local(states[p]["window"]) for p in every if "window" in states[p]}
        size = norm(list(sums.values()), every[0])
        root = self.run["root"] = math.hypot(self.run["root"], scale * size)
        for group in self.param_groups:
            params = [p for p in group["params"] if p in sums]
            if not params or root == 0.0:
                continue
            rate = float(group["alpha"]) * float(group["lr"]) / root
            points, decay = [self._point(p) for p in params], rate * float(group["weight_decay"])
            if decay:
                torch._foreach_mul_(points, 1.0 - min(decay, 1.0))
            moves = [sums[p] for p in params]
            torch._foreach_mul_(moves, rate * scale)
            torch._foreach_sub_(points, moves)
            self._store(params, points)

    def _check_options(self, group: dict[str, Any]) -> None:
        super()._check_options(group)
        check_positive(group["alpha"], "alpha")
