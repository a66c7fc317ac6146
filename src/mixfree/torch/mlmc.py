"""MLMC gradients as a signed running sum, and their wrapper around any torch optimiser."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch._compile import _disable_dynamo
from torch.optim.optimizer import ParamsT

from mixfree.base.checks import shown
from mixfree.gradients.mlmc import MLMC as Window
from mixfree.torch.stream import Given, StreamOptimizer
from mixfree.torch.tensors import local, norm, wide

_window = lru_cache(maxsize=8)(Window)
OWN = ("window", "given", "average", "own")  # entries of the state besides the inner optimiser's


class WindowOptimizer(StreamOptimizer):
    """Sums the gradients of a level with their signs; parameters move when it is complete.

    Its settings are in the groups, and all ranks of a distributed run draw the same.
    """

    def __init__(
        self, params: ParamsT, defaults: dict[str, Any], window: Window, output: str, **counts: Any
    ) -> None:
        names = ("levels", "weights", "horizon", "seed")
        defaults = {**defaults, **{name: getattr(window, name) for name in names}}
        super().__init__(params, defaults, output, pending=0, length=1, **counts)

    @property
    def window(self) -> Window:
        """The length of each window, and the weights of its samples."""
        run = self.run
        return _window(run["levels"], run["weights"], run["horizon"], run["seed"])

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
        run, window = self.run, self.window
        if run["pending"] == 0:
            run["length"] = window.length(run["steps"], run["samples"])
            if run["output"] != "last":  # distributed checkpoints need all entries from the start
                self._begin("average")
        for each in given:
            self._add(each, window.weight(run["pending"], run["length"]))
        run["pending"] += 1
        if run["pending"] < run["length"]:
            return False
        run["pending"] = 0
        self._count_step()
        self._move(window.scale(run["length"]))
        for p in self._parameters():
            if "window" in self.state[p]:
                self.state[p]["window"].zero_()
        return True

    def _add(self, given: Given, weight: float) -> None:
        for p in given.params:
            if "window" not in self.state[p]:
                self.state[p]["window"] = torch.zeros_like(p, dtype=wide(p.dtype))
        sums = [local(self.state[p]["window"]) for p in given.params]
        gradients = [g.to(s.dtype) for g, s in zip(given.gradients, sums, strict=True)]
        torch._foreach_add_(sums, gradients, alpha=weight)


class MLMC(WindowOptimizer):
    """Gives MLMC gradients to another optimiser, which steps whenever a level is complete.

    Its parameter groups are those of ``optimizer``; a scheduler can be given either of the two.

    Parameters
    ----------
    optimizer
        Any torch optimiser, such as ``torch.optim.Adam(model.parameters())``; none of this package.
    levels, weights, horizon, seed
        As in :class:`mixfree.MLMC`.
    output
        ``"last"``, or an average of the iterates as in :class:`mixfree.torch.MAG`.

    Examples
    --------
    >>> import torch
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> opt = MLMC(torch.optim.Adam([w], lr=0.1), levels=3)
    >>> while not opt.stepped:
    ...     opt.zero_grad()
    ...     (w - 1.0).square().sum().backward()
    ...     opt.step()
    >>> opt.samples, w.detach()
    (8, tensor([0.1000, 0.1000]))
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        levels: int | None = 5,
        weights: str = "exact",
        seed: int = 0,
        *,
        horizon: int | None = None,
        output: str = "last",
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(f"optimizer must be a torch optimiser, not {shown(optimizer)}")
        if isinstance(optimizer, StreamOptimizer):
            raise ValueError("optimizer must be one of torch's: MAG and Ladder also count samples")
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("optimizer must step without evaluating the loss again, not as LBFGS")
        self.optimizer = optimizer
        window = Window(levels, weights, horizon, seed)
        groups, defaults = optimizer.param_groups, optimizer.defaults
        super().__init__(groups, defaults, window, output)
        self.state, self.param_groups = optimizer.state, optimizer.param_groups

    def _ascends(self, group: dict[str, Any]) -> bool:
        return False  # the inner optimiser itself maximises, if asked to

    def _add(self, given: Given, weight: float) -> None:
        super()._add(given, weight)
        for p in given.params:
            self.state[p]["given"] = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Leave the inner optimiser its own entries of the state: it begins where it has none."""
        params, state = self._parameters(), self.state
        mine = [{name: state[p].pop(name) for name in OWN if name in state[p]} for p in params]
        try:
            yield
        finally:
            for p, entries in zip(params, mine, strict=True):
                state[p].update(entries)

    def _move(self, scale: float) -> None:
        params = self._parameters()
        before = [p.grad for p in params]
        try:
            for p in params:
                # Without a gradient in the whole level, None: momentum would act on a zero.
                state, most, p.grad = self.state[p], torch.finfo(p.dtype).max, None
                if state.get("given", False):
                    p.grad = state["window"].mul_(scale).clamp_(-most, most).to(p.dtype)
                    state["given"] = False
            with self._alone():
                self.optimizer.step()
        finally:
            for p, gradient in zip(params, before, strict=True):
                p.grad = gradient

    @_disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both optimisers, also in the middle of a level."""
        super().load_state_dict(state_dict)
        with self._alone():
            self.optimizer.__setstate__({"state": self.state, "param_groups": self.param_groups})

    def _keeps(self, name: str) -> bool:
        return name in OWN

    def _check_options(self, group: dict[str, Any]) -> None:
        pass  # the inner optimiser checks its own

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "optimizer": self.optimizer}
