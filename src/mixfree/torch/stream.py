"""The base class of the optimisers: counting, averaging and checking."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch
from torch._compile import _disable_dynamo
from torch.optim.optimizer import ParamsT

from mixfree.base.checks import check_not_negative, check_one_of, shown
from mixfree.base.state import loading
from mixfree.dropins import OUTPUTS, newest_weight
from mixfree.torch.tensors import Tensors, local, wide

TORCH_ADDS = {"differentiable", "param_names"}  # options of a group that a state may lack
FORMAT = 3  # version of the state
LEAST_LR = 0.1  # a smaller lr must have been meant for another optimiser


class Given(NamedTuple):
    """The parameters of one group that have a gradient."""

    group: dict[str, Any]
    places: list[int]  # among the parameters of all groups
    params: Tensors
    gradients: Tensors  # of the objective that is minimised


class StreamOptimizer(torch.optim.Optimizer, ABC):
    """A torch optimiser that is given one sample per step, in the order of the stream.

    Everything is where torch looks for it, so that it is saved, loaded and copied as for any torch
    optimiser: tensors in ``state``, settings and counts in the groups (counts in the first).
    """

    def __init__(
        self, params: ParamsT, defaults: dict[str, Any], output: str, **counts: Any
    ) -> None:
        check_one_of(output, "output", OUTPUTS)
        counts |= {"samples": 0, "steps": 0, "skipped": 0, "stepped": False, "swapped": False}
        counts |= {"format": FORMAT, "entries": []}
        super().__init__(params, {**defaults, "output": output, **counts})

    @abstractmethod
    def _take(self, given: list[Given]) -> bool | None:
        """Use one sample's gradients: True if the parameters moved, None if not finite."""

    @property
    def run(self) -> dict[str, Any]:
        """Settings and counts of the run: those of the first group."""
        first: dict[str, Any] = self.param_groups[0]
        return first

    @property
    def samples(self) -> int:
        """Number of samples so far: calls of :meth:`step` that were not skipped."""
        return int(self.run["samples"])

    @property
    def steps(self) -> int:
        """Number of times the parameters have moved."""
        return int(self.run["steps"])

    @property
    def skipped(self) -> int:
        """Number of gradients that were not finite, and changed nothing."""
        return int(self.run["skipped"])

    @property
    def stepped(self) -> bool:
        """Whether the latest call of :meth:`step` moved the parameters."""
        return bool(self.run["stepped"])

    @_disable_dynamo  # decisions are made on the host
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Use the gradients of one sample; ``stepped`` tells whether the parameters moved.

        A gradient that is not finite, or whose norm is not, is skipped and counted. A sparse one
        is a ValueError, which changes nothing.
        """
        run = self.run
        if run["swapped"]:
            raise RuntimeError(
                "step() inside averaged() or after eval(), where the parameters are the average: "
                "call train() first"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            moved = self._take(self._given())
        run["skipped" if moved is None else "samples"] += 1
        run["stepped"] = bool(moved)
        return loss

    @_disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters at any time; their gradients count as zero so far."""
        super().add_param_group(param_group)
        try:
            self._check_params(self.param_groups[-1]["params"])
            self._check_options(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise

    @_disable_dynamo
    @torch.no_grad()
    def eval(self) -> None:
        """Replace the parameters by the average, until :meth:`train` is called.

        With ``output="last"`` the parameters do not change.
        """
        if not self.run["swapped"] and self.run["output"] != "last":
            for p in self._parameters():
                self.state[p]["own"] = p.detach().clone()
                p.copy_(self.state[p].get("average", p))
        self.run["swapped"] = True

    @_disable_dynamo
    @torch.no_grad()
    def train(self) -> None:
        """Restore the parameters after :meth:`eval`."""
        for p in self._parameters() if self.run["swapped"] else ():
            p.copy_(self.state[p].pop("own", p))
        self.run["swapped"] = False

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Replace the parameters by the average within a ``with`` block."""
        if self.run["output"] == "last":
            raise ValueError(
                "averaged() needs an average, but output='last' keeps none: make the optimiser "
                "with output='average', output='weighted' or output='recent'"
            )
        if self.run["swapped"]:
            raise RuntimeError("averaged() inside averaged() or after eval(): call train() first")
        self.eval()
        try:
            yield
        finally:
            self.train()

    @_disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """Return the state, and the names of its entries, of which none may be lost."""
        found: dict[str, Any] = super().state_dict()
        names = {name for entries in found["state"].values() for name in entries}
        found["param_groups"][0]["entries"] = sorted(names)
        return found

    @_disable_dynamo
    @loading("optimiser")
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state and its settings; a ValueError if they do not fit changes nothing.

        Sums keep their dtypes. torch casts them to the parameters' dtype, which would take half
        the digits of a bfloat16 run.
        """
        first = state_dict["param_groups"][0]
        missing = sorted(self.run.keys() - first.keys() - TORCH_ADDS)
        if missing:
            raise ValueError(f"state has no {missing[0]!r}: it is of another optimiser or version")
        if first["format"] != FORMAT:
            raise ValueError(f"state has format {shown(first['format'])}, not {FORMAT}")
        # torch reads a distributed checkpoint into the entries that there are.
        if lost := set(first["entries"]).difference(*state_dict["state"].values()):
            raise ValueError(f"state has no {min(lost)!r}: step until it moves, then load it again")
        super().load_state_dict(state_dict)
        places = [place for group in state_dict["param_groups"] for place in group["params"]]
        for place, p in zip(places, self._parameters(), strict=True):
            for name, value in state_dict["state"].get(place, {}).items():
                if isinstance(value, torch.Tensor) and self._keeps(name):
                    self.state[p][name] = value.detach().to(p.device, copy=True)

    def _keeps(self, name: str) -> bool:
        """Whether an entry of the state keeps its dtype when it is loaded."""
        return True

    def _point(self, p: torch.Tensor) -> torch.Tensor:
        """The parameter before it was rounded; the parameter itself from float32 on.

        The first steps are shorter than the spacing of narrower numbers: rounded, they would be
        lost, and the distance of a ladder would never grow.
        """
        if p.dtype == wide(p.dtype):
            return local(p)
        point, lost = local(p).to(wide(p.dtype)), self.state[p].get("lost")
        return point if lost is None else point + lost

    def _store(self, params: Tensors, points: Tensors) -> None:
        """Round points to their parameters, and keep the rounding errors."""
        for p, x in zip(params, points, strict=True):
            if x.dtype != p.dtype:
                local(p).copy_(x)
                self.state[p]["lost"] = x.sub_(local(p))

    def _parameters(self) -> Tensors:
        return [p for group in self.param_groups for p in group["params"]]

    def _given(self) -> list[Given]:
        found, start = [], 0
        for group in self.param_groups:
            pairs = [(i, p) for i, p in enumerate(group["params"], start) if p.grad is not None]
            start += len(group["params"])
            gradients = [local(p.grad) for _, p in pairs]
            if {gradient.layout for gradient in gradients} - {torch.strided}:
                raise ValueError(
                    f"gradient of sample {self.samples + 1} is sparse, but only dense gradients "
                    "can be summed: make the embedding with sparse=False"
                )
            if pairs and self._ascends(group):
                gradients = list(torch._foreach_neg(gradients))
            if pairs:
                places, params = zip(*pairs, strict=True)
                found.append(Given(group, list(places), list(params), gradients))
        return found

    def _ascends(self, group: dict[str, Any]) -> bool:
        return bool(group["maximize"])

    def _count_step(self) -> None:
        """Count a step, and add the current parameters to the average."""
        self.run["steps"] += 1
        if self.run["output"] != "last":
            self._lerp("average", newest_weight(self.run["output"], self.run["steps"]))

    def _begin(self, name: str) -> None:
        """Begin the average of parameters that are new; they were constant until now."""
        for p in self._parameters():
            if name not in self.state[p]:
                self.state[p][name] = p.detach().to(wide(p.dtype), copy=True)

    def _lerp(self, name: str, weight: float) -> None:
        """Move an average towards the point."""
        self._begin(name)
        params = self._parameters()
        averages = [local(self.state[p][name]) for p in params]
        points = [
            local(p) if p.dtype == wide(p.dtype) else local(p).to(wide(p.dtype)) for p in params
        ]
        torch._foreach_lerp_(averages, points, weight)

    def _check_options(self, group: dict[str, Any]) -> None:
        for name in ("lr", "weight_decay"):
            check_not_negative(group[name], name)
        if not isinstance(group["maximize"], bool):
            raise ValueError(f"maximize must be True or False, not {shown(group['maximize'])}")

    def _check_params(self, params: Iterable[torch.Tensor]) -> None:
        for p in params:
            if not p.is_floating_point():
                raise ValueError(f"params must be real floating-point tensors, not {p.dtype}")
        devices = sorted({str(p.device) for p in self._parameters()})
        if len(devices) > 1:
            raise ValueError(f"params must be on one device, not on {' and '.join(devices)}")
        if len({type(local(p)) is type(p.detach()) for p in self._parameters()}) > 1:
            raise ValueError("params must be sharded all or none: shard the whole model")


def check_multiplier(lr: float) -> None:
    """Check that ``lr`` can be a factor of a step of the right size."""
    if check_not_negative(lr, "lr") < LEAST_LR:
        raise ValueError(
            f"lr={lr!r} multiplies a step that is found without it, so that the parameters would "
            "hardly move: leave it out (to make steps smaller, use a scheduler or the lr of a "
            "parameter group)"
        )


def averaged(optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
    """Call ``averaged()`` of an optimiser of :mod:`mixfree.torch` that is wrapped, at any depth.

    Wrappers, as that of ``accelerate``, have an attribute ``optimizer``.
    """
    inside: Any = optimizer
    while not isinstance(inside, StreamOptimizer):
        if not hasattr(inside, "optimizer"):
            raise ValueError(
                f"optimizer must be, or wrap, one of mixfree.torch, not {type(inside).__name__}"
            )
        inside = inside.optimizer
    return inside.averaged()
