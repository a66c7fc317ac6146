"""MAG for PyTorch: Algorithm 1, fed with one sample per call."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from mixfree.base.checks import check_positive
from mixfree.gradients.mlmc import MLMC as Law
from mixfree.torch.stream import check_multiplier
from mixfree.torch.tensors import move, norm, sums_dtype
from mixfree.torch.window import WindowOptimizer, WindowRun


@dataclass(slots=True)
class MAGRun(WindowRun):
    """The state of a level, and the accumulator of AdaGrad-Norm."""

    root: float = 0.0  # square root of the sum of squared norms

    def check(self, what: str) -> None:
        """Check that the root is not negative."""
        WindowRun.check(self, what)
        if self.root < 0.0:
            raise ValueError(f"state of the {what} does not fit: root is {self.root}")


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
    lr
        Multiplies ``alpha``; 1 unless a scheduler or a group changes it. A learning rate for
        another optimiser, such as 1e-3, is refused: the parameters would hardly move.
    weight_decay
        Decoupled weight decay: each step also subtracts its rate times this times the parameters,
        which does not enter the accumulator.
    maximize
        Maximise the objective instead of minimising it.
    output
        ``"average"``, ``"weighted"``, ``"recent"`` or ``"last"``: the output of :meth:`averaged`
        and :meth:`eval`.
    check_finite
        ``"late"``: a gradient that is not finite counts as zero, and an error reports it at most 64
        samples later, without synchronising at every step. ``"now"``: it is
        refused at once.

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
        weight_decay: float = 0.0,
        maximize: bool = False,
        output: str = "average",
        check_finite: str = "late",
    ) -> None:
        check_multiplier(lr)
        law = Law(levels, weights, horizon, seed)
        defaults = {"alpha": alpha, "lr": lr, "weight_decay": weight_decay, "maximize": maximize}
        self._root: torch.Tensor | None = None  # on the device; that of the run is the saved one
        super().__init__(params, defaults, law, output, check_finite, MAGRun())

    def _move(self, scale: float) -> None:
        summed = [
            (group, [p for p in group["params"] if "sum" in self.state[p]])
            for group in self.param_groups
        ]
        sums = [[self.state[p]["sum"] for p in params] for _, params in summed]
        every = [s for each in sums for s in each]
        if not every:
            return
        if self._root is None:
            device = every[0].device
            self._root = torch.tensor(self._run.root, dtype=sums_dtype(device), device=device)
        self._root = torch.hypot(self._root, scale * norm(every).to(self._root.dtype))
        for (group, params), directions in zip(summed, sums, strict=True):
            rate = float(group["alpha"]) * float(group["lr"])
            move(params, directions, rate, scale, self._root, float(group["weight_decay"]))

    def _plain_run(self) -> dict[str, Any]:
        if self._root is not None:
            self._run.root = float(self._root)
        return super()._plain_run()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned, also in the middle of a level."""
        super().load_state_dict(state_dict)
        self._root = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_root": self._root}

    def _check_options(self, group: dict[str, Any]) -> None:
        super()._check_options(group)
        check_positive(group["alpha"], "alpha")
