"""What every optimiser here shares: the parameters, the counts, the average, save and load."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from mixfree.base.checks import check_one_of
from mixfree.outputs import DROPIN_OUTPUTS
from mixfree.torch.tensors import Tensors, largest, wide

RUN = "run"  # key of the counts among the parameters' states: torch saves and copies it along


class Given(NamedTuple):
    """The parameters of one group that have a gradient."""

    group: dict[str, Any]
    params: list[torch.Tensor]
    gradients: list[torch.Tensor]


class StreamOptimizer(torch.optim.Optimizer, ABC):
    """A torch optimiser that is told one sample a step, in the order of the stream.

    Parameters
    ----------
    params
        As for any torch optimiser.
    defaults
        Options that a parameter group can have of its own.
    settings
        What must be the same when a state is loaded.
    output
        ``"average"``, ``"weighted"`` (weights proportional to t) or ``"last"`` (keeps none).
    """

    def __init__(
        self,
        params: Iterable[Any],
        defaults: dict[str, Any],
        settings: Mapping[str, Any],
        output: str,
    ) -> None:
        self.output = check_one_of(output, "output", DROPIN_OUTPUTS)
        self.settings = {"method": type(self).__name__, **settings, "output": output}
        self.stepped = False
        self._swapped = False
        super().__init__(params, defaults)
        self.state[RUN] = self._start()

    def _start(self) -> dict[str, Any]:
        return {"samples": 0, "steps": 0}

    @abstractmethod
    def _take(self, given: list[Given]) -> bool:
        """Use one sample's gradients; True when the parameters moved."""

    def _pack(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The counts as torch can save them."""
        return dict(run)

    def _unpack(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """What :meth:`_pack` has packed."""
        return dict(run)

    @property
    def samples(self) -> int:
        """Samples observed so far: calls of :meth:`step` that were not refused."""
        return int(self.state[RUN]["samples"])

    @property
    def steps(self) -> int:
        """Steps taken so far: how often the parameters moved."""
        return int(self.state[RUN]["steps"])

    @torch._disable_dynamo  # the decisions are the host's: compiled code calls it as it is
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take the gradients of one sample; ``stepped`` then says whether the parameters moved.

        Raises
        ------
        ValueError
            If a gradient is sparse or not finite. The message has the sample's number, and the
            optimiser is as it was before the call.
        """
        if self._swapped:
            raise RuntimeError("step() inside averaged(): the parameters are the average there")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            given = self._given()
            self._check_layout(given)
            self.stepped = self._take(given)
        return loss

    @torch._disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, also in the middle of a level: until now their gradients were zero."""
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the ``with`` block the parameters are the average; after it, themselves again.

        ValueError with ``output="last"``, which keeps none.
        """
        self._check_average("averaged()")
        if self._swapped:
            raise RuntimeError("averaged() inside averaged()")
        params = self._parameters()
        own = [p.detach().clone() for p in params]
        self._swapped = True
        try:
            self._copy(map(self._average, params), params)
            yield
        finally:
            self._copy(own, params)
            self._swapped = False

    def average_into(self, model: torch.nn.Module) -> None:
        """Copy the average into another model of the same make.

        Parameters go by their names if the optimiser was given ``named_parameters()``, and
        otherwise by the order in which it was given them. Buffers are left as they are.
        ValueError with ``output="last"``, which keeps no average.
        """
        self._check_average("average_into()")
        mine = self._parameters()
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        theirs = dict(model.named_parameters())
        missing = [name for name in names if name not in theirs]
        if missing:
            raise ValueError(f"model has no parameter named {missing[0]!r}")
        targets = [theirs[name] for name in names] if names else list(theirs.values())
        shapes, others = self._shapes(), [tuple(p.shape) for p in targets]
        if shapes != others:
            raise ValueError(f"model has parameters of shapes {others}, the optimiser {shapes}")
        self._copy(map(self._average, mine), targets)

    @torch._disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """All that changes, in the form of every torch optimiser, and the settings it goes with."""
        saved = super().state_dict()
        saved["state"][RUN] = self._pack(self.state[RUN])
        saved["settings"] = dict(self.settings)
        saved["shapes"] = self._shapes()
        return saved

    @torch._disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the optimiser that gave the state was, also in the middle of a level.

        ValueError, and nothing has changed, if the settings or the parameters' number or shapes
        are not the same. Sums keep the dtype they were saved with.
        """
        self._check_loadable(state_dict)
        run = self._unpack(state_dict["state"][RUN])
        super().load_state_dict(state_dict)
        self.state[RUN] = run
        # torch casts to the parameters' dtype, and half the digits of the sums would go.
        for place, p in enumerate(self._parameters()):
            for name, value in state_dict["state"].get(place, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[p][name] = value.detach().to(p.device, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        names = ("output", "settings", "stepped", "_swapped")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in names}}

    def _parameters(self) -> list[torch.Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(p.shape) for p in self._parameters()]

    def _given(self) -> list[Given]:
        found = []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                found.append(Given(group, params, [p.grad for p in params]))
        return found

    def _buffers(self, name: str, params: Tensors) -> list[torch.Tensor]:
        """A buffer of that name for each parameter, zero when first asked for."""
        for p in params:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros_like(p, dtype=wide(p.dtype))
        return [self.state[p][name] for p in params]

    def _count_step(self) -> None:
        """The parameters are about to move for the t-th time: average where they are."""
        run = self.state[RUN]
        t = run["steps"] = run["steps"] + 1
        if self.output == "last":
            return
        params = self._parameters()
        for p in params:
            # One that was added later counts as if it had stood where it is from the start.
            if "average" not in self.state[p]:
                self.state[p]["average"] = p.detach().to(wide(p.dtype), copy=True)
        averages = [self.state[p]["average"] for p in params]
        weight = 1.0 / t if self.output == "average" else 2.0 / (t + 1.0)
        torch._foreach_lerp_(averages, [p.to(wide(p.dtype)) for p in params], weight)

    def _average(self, p: torch.Tensor) -> torch.Tensor:
        return self.state.get(p, {}).get("average", p)

    def _check_average(self, asked: str) -> None:
        if self.output == "last":
            raise ValueError(
                f"{asked} needs an average, and output='last' keeps none: make the optimiser "
                "with output='average' or output='weighted'"
            )

    @staticmethod
    @torch.no_grad()
    def _copy(sources: Iterable[torch.Tensor], targets: Tensors) -> None:
        for source, target in zip(list(sources), targets, strict=True):
            target.copy_(source)

    def _check_layout(self, given: list[Given]) -> None:
        for gradient in (g for each in given for g in each.gradients):
            if gradient.layout != torch.strided:
                raise ValueError(
                    f"gradient of sample {self.samples + 1} is sparse, and only dense gradients "
                    "can be summed (give the embedding sparse=False)"
                )

    def _check_size(self, size: float, given: list[Given]) -> None:
        """Refuse a gradient whose norm is not finite, or so large that sums might not be."""
        gradients = [g for each in given for g in each.gradients]
        if gradients and not size < largest(gradients):
            tops = [float(g.abs().amax()) for g in gradients if g.numel()]
            top = max(tops, key=lambda size: (math.isnan(size), size))
            raise ValueError(
                f"gradient of sample {self.samples + 1} is not finite or above "
                f"{largest(gradients):.1e}: its largest entry is {top}"
            )

    def _check_group(self, group: dict[str, Any]) -> None:
        if not float(group.get("lr", 0.0)) >= 0.0:
            raise ValueError(f"lr must be at least 0, not {group['lr']!r}")
        for p in group["params"]:
            if not p.is_floating_point():
                raise ValueError(f"params must be real floating-point tensors, not {p.dtype}")
        devices = sorted({str(p.device) for p in self._parameters()})
        if len(devices) > 1:
            raise ValueError(f"params must be on one device, not on {' and '.join(devices)}")

    def _check_loadable(self, state_dict: Mapping[str, Any]) -> None:
        saved = state_dict.get("settings", {})
        for name, wanted in self.settings.items():
            if name not in saved or saved[name] != wanted:
                raise ValueError(
                    f"state was saved with {name}={saved.get(name)!r}, this optimiser has "
                    f"{name}={wanted!r}"
                )
        numbers, others = (
            [len(group["params"]) for group in groups]
            for groups in (self.param_groups, state_dict["param_groups"])
        )
        if numbers != others:
            raise ValueError(
                f"state is of groups with {others} parameters, this optimiser's have {numbers}"
            )
        shapes = zip(state_dict["shapes"], self._shapes(), strict=True)
        for place, (before, mine) in enumerate(shapes):
            if tuple(before) != mine:
                raise ValueError(
                    f"state is of a parameter {place} of shape {tuple(before)}, "
                    f"this optimiser's has {mine}"
                )
