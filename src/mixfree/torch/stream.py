"""The base class of the optimisers: counting, averaging, checking, saving and loading."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch._compile import _disable_dynamo
from torch.optim.optimizer import ParamsT

from mixfree.base.checks import check_not_negative, check_one_of, shown
from mixfree.base.state import State, loading
from mixfree.dropins import OUTPUTS, newest_weight
from mixfree.torch.tensors import as_arrays, as_tensors, wide

FORMAT = 4  # version of state_dict
READ = 64  # samples between reads of the flags of left-out gradients
CHECKS = ("late", "now")  # when a gradient that is not finite is reported
LEAST_LR = 0.1  # a smaller lr must have been meant for another optimiser


class Given(NamedTuple):
    """The parameters of one group that have a gradient."""

    group: dict[str, Any]
    params: list[torch.Tensor]
    gradients: list[torch.Tensor]


@dataclass(slots=True)
class StreamRun(State):
    """Counts of a run."""

    samples: int = 0
    steps: int = 0
    swapped: bool = False  # whether the parameters are the average

    def check(self, what: str) -> None:
        """Check that every step took at least one sample."""
        if not 0 <= self.steps <= self.samples:
            raise ValueError(
                f"state of the {what} does not fit: {self.steps} steps from {self.samples} samples"
            )


class StreamOptimizer(torch.optim.Optimizer, ABC):
    """A torch optimiser that is given one sample per step, in the order of the stream.

    The state of a single parameter is in ``state``, as in torch; all other state is in ``_run``.

    Parameters
    ----------
    params
        As for any torch optimiser.
    defaults
        Default options of parameter groups.
    settings
        Settings that must be the same when a state is loaded.
    output
        ``"average"``, ``"weighted"`` (weights proportional to t), ``"recent"`` (weights that grow
        as t³) or ``"last"`` (no average).
    check_finite
        ``"now"`` reads from the device at every sample whether its gradient is finite, and refuses
        it if not. ``"late"`` replaces such a gradient by zero on the device, and reads a flag every
        64 samples.
    run
        The initial state of a run.
    """

    # Entries of a parameter in ``state``: its average, and its own value while swapped.
    buffers: ClassVar[tuple[str, ...]] = ("average", "own")
    entries: ClassVar[tuple[str, ...]] = ("state", "param_groups", "run", "shapes", "flags")
    _run: StreamRun

    def __init__(
        self,
        params: ParamsT,
        defaults: dict[str, Any],
        settings: Mapping[str, Any],
        output: str,
        check_finite: str,
        run: StreamRun,
    ) -> None:
        self.output = check_one_of(output, "output", OUTPUTS)
        self.check_finite = check_one_of(check_finite, "check_finite", CHECKS)
        self.settings = {
            "method": type(self).__name__,
            "format": FORMAT,
            **settings,
            "output": output,
        }
        self.stepped = False
        self._run = run
        # Flags of the latest left-out gradients, by the sample's number modulo READ.
        self._flags: torch.Tensor | None = None
        super().__init__(params, defaults)

    @abstractmethod
    def _take(self, given: list[Given]) -> bool:
        """Use one sample's gradients; return True if the parameters moved."""

    @property
    def samples(self) -> int:
        """Number of samples so far: calls of :meth:`step` that were not refused."""
        return self._run.samples

    @property
    def steps(self) -> int:
        """Number of times the parameters have moved."""
        return self._run.steps

    @_disable_dynamo  # decisions are made on the host
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Use the gradients of one sample; ``stepped`` tells whether the parameters moved.

        Raises
        ------
        ValueError
            If a gradient is sparse or not finite. The message names the sample, and the optimiser
            is as it was before the call. With ``check_finite="late"``, a gradient that is not
            finite is reported up to 64 samples later, and counted as zero.
        """
        if self._run.swapped:
            raise RuntimeError(
                "step() inside averaged() or after eval(), where the parameters are the average: "
                "call train() first"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            given = self._given()
            self._check_layout(given)
            self.stepped = self._take(given)
        if self.samples % READ == 0:
            self._report()
        return loss

    @_disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, also in the middle of a level; their gradients count as zero so far."""
        super().add_param_group(param_group)
        try:
            self._check_params(self.param_groups[-1]["params"])
            self._check_options(self.param_groups[-1])
        except ValueError:
            self.param_groups.pop()
            raise

    @_disable_dynamo
    def eval(self) -> None:
        """Replace the parameters by the average, until :meth:`train` is called.

        With ``output="last"`` the parameters do not change.

        Examples
        --------
        >>> from mixfree.torch import MAG
        >>> w = torch.nn.Parameter(torch.zeros(1))
        >>> opt = MAG([w], levels=1)
        >>> for _ in range(4):
        ...     w.grad = torch.tensor([-1.0])
        ...     opt.step()
        >>> opt.eval(), w.item(), opt.train(), w.item()
        (None, 0.5, None, 1.7071...)
        """
        if self._run.swapped:
            return
        params = self._parameters()
        if self.output != "last":
            for p in params:
                self.state[p]["own"] = p.detach().clone()
            self._copy(map(self._average, params), params)
        self._run.swapped = True

    @_disable_dynamo
    def train(self) -> None:
        """Restore the parameters after :meth:`eval`."""
        if self._run.swapped:
            params = self._parameters()
            self._copy([self.state[p].pop("own", p) for p in params], params)
            self._run.swapped = False

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Replace the parameters by the average within a ``with`` block.

        Raises
        ------
        ValueError
            With ``output="last"``, which keeps no average.
        """
        self._check_average("averaged()")
        if self._run.swapped:
            raise RuntimeError("averaged() inside averaged() or after eval(): call train() first")
        self.eval()
        try:
            yield
        finally:
            self.train()

    def average_into(self, model: torch.nn.Module) -> None:
        """Copy the average into another model with the same parameters.

        Parameters are matched by name if the optimiser was given ``named_parameters()``, and
        otherwise by order. Buffers are not copied.

        Raises
        ------
        ValueError
            With ``output="last"``, which keeps no average, or if the parameters do not match.
        """
        self._check_average("average_into()")
        mine = self._parameters()
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        theirs = dict(model.named_parameters())
        missing = [name for name in names if name not in theirs]
        if missing:
            raise ValueError(
                f"model has no parameter named {missing[0]!r}, which the optimiser has"
            )
        targets = [theirs[name] for name in names] if names else list(theirs.values())
        shapes, others = self._shapes(), [tuple(p.shape) for p in targets]
        if shapes != others:
            raise ValueError(f"model must have parameters of shapes {shapes}, not {others}")
        self._copy(map(self._average, mine), targets)

    @_disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """Return the state in the form of every torch optimiser, with the settings."""
        return {
            **super().state_dict(),
            "run": as_tensors(self._plain_run()),
            "settings": dict(self.settings),
            "shapes": self._shapes(),
            "flags": self._flags,
        }

    @_disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned, also in the middle of a level.

        Sums keep their saved dtype.

        Raises
        ------
        ValueError
            If the state is of another optimiser, or of other settings or parameters. Nothing has
            changed then.
        """
        with loading("optimiser"):
            run = self._restored(state_dict)
            super().load_state_dict(state_dict)
        self._run, flags = run, state_dict["flags"]
        self._flags = None if flags is None else flags.to(self._parameters()[0].device, copy=True)
        # torch casts to the parameters' dtype, which would lose half the digits of the sums.
        for place, p in enumerate(self._parameters()):
            for name, value in state_dict["state"].get(place, {}).items():
                if isinstance(value, torch.Tensor):
                    self.state[p][name] = value.detach().to(p.device, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        names = ("output", "check_finite", "settings", "stepped", "_run", "_flags")
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

    def _count_step(self) -> None:
        """Count a step, and add the current parameters to the average."""
        self._run.steps += 1
        if self.output == "last":
            return
        params = self._parameters()
        for p in params:
            # A parameter that was added later counts as constant until now.
            if "average" not in self.state[p]:
                self.state[p]["average"] = p.detach().to(wide(p.dtype), copy=True)
        averages = [self.state[p]["average"] for p in params]
        weight = newest_weight(self.output, self._run.steps)
        torch._foreach_lerp_(averages, [p.to(wide(p.dtype)) for p in params], weight)

    def _average(self, p: torch.Tensor) -> torch.Tensor:
        average: torch.Tensor = self.state.get(p, {}).get("average", p)
        return average

    def _check_average(self, asked: str) -> None:
        if self.output == "last":
            raise ValueError(
                f"{asked} needs an average, but output='last' keeps none: make the optimiser "
                "with output='average', output='weighted' or output='recent'"
            )

    @staticmethod
    @torch.no_grad()
    def _copy(sources: Iterable[torch.Tensor], targets: Iterable[torch.Tensor]) -> None:
        for source, target in zip(list(sources), targets, strict=True):
            target.copy_(source)

    def _check_layout(self, given: list[Given]) -> None:
        for gradient in (g for each in given for g in each.gradients):
            if gradient.layout != torch.strided:
                raise ValueError(
                    f"gradient of sample {self.samples + 1} is sparse, but only dense gradients "
                    "can be summed: make the embedding with sparse=False"
                )

    def _refuse(self, size: torch.Tensor, given: list[Given], most: float) -> torch.Tensor:
        """Return 1 if a gradient's norm is not finite or above ``most``, else 0.

        Raises
        ------
        ValueError
            With ``check_finite="now"``, instead of leaving it out.
        """
        if self._flags is None:
            self._flags = torch.zeros(READ, device=size.device)
        flag = self._flags[self.samples % READ]
        torch.logical_not(size < most, out=flag)
        if self.check_finite == "now" and bool(flag):
            self._flags = None
            gradients = [g for each in given for g in each.gradients]
            tops = [float(g.abs().amax()) for g in gradients if g.numel()]
            top = max(tops, key=lambda size: (math.isnan(size), size))
            raise ValueError(
                f"gradient of sample {self.samples + 1} is not finite or above {most:.1e}: "
                f"its largest entry is {top}"
            )
        return flag

    def _report(self) -> None:
        """Raise an error, once, if a gradient was left out since the last report."""
        if self._flags is None:
            return
        flags, self._flags = self._flags.tolist(), None
        if any(flags):
            first = (self.samples - 1) // READ * READ
            raise ValueError(
                f"gradient of sample {first + 1 + flags.index(1.0)} is not finite or too large, "
                "perhaps later ones, too: it counted as zero, and nothing else has changed (use "
                "check_finite='now' to refuse it at once)"
            )

    def _check_options(self, group: dict[str, Any]) -> None:
        for name in ("lr", "weight_decay"):
            check_not_negative(group[name], name)
        if not isinstance(group["maximize"], bool):
            raise ValueError(f"maximize must be True or False, not {shown(group['maximize'])}")

    def _check_params(self, params: list[torch.Tensor]) -> None:
        for p in params:
            if not p.is_floating_point():
                raise ValueError(f"params must be real floating-point tensors, not {p.dtype}")
        devices = sorted({str(p.device) for p in self._parameters()})
        if len(devices) > 1:
            raise ValueError(f"params must be on one device, not on {' and '.join(devices)}")

    def _restored(self, state_dict: Mapping[str, Any]) -> StreamRun:
        """Check a saved state completely, and return its run."""
        saved = state_dict.get("settings", {})
        for name, wanted in self.settings.items():
            if name not in saved or saved[name] != wanted:
                raise ValueError(
                    f"state was saved with {name}={shown(saved.get(name))}, this optimiser has "
                    f"{name}={wanted!r}"
                )
        for name in self.entries:
            if name not in state_dict:
                raise ValueError(f"state has no entry {name!r}")
        groups = state_dict["param_groups"]
        own, others = ([len(g["params"]) for g in each] for each in (self.param_groups, groups))
        if own != others:
            raise ValueError(
                f"state is of groups with {others} parameters, but this optimiser's have {own}"
            )
        for group in groups:
            self._check_options(group)
        shapes = zip(state_dict["shapes"], self._shapes(), strict=True)
        for place, (before, mine) in enumerate(shapes):
            if tuple(before) != mine:
                raise ValueError(
                    f"state is of a parameter {place} of shape {shown(tuple(before))}, "
                    f"but this optimiser's has {mine}"
                )
        self._check_saved_buffers(state_dict["state"])
        flags = state_dict["flags"]
        if flags is not None and tuple(flags.shape) != (READ,):
            raise ValueError(f"state does not fit: flags are of shape {tuple(flags.shape)}")
        return self._restored_run(as_arrays(state_dict["run"]))

    def _plain_run(self) -> dict[str, Any]:
        return self._run.plain()

    def _restored_run(self, plain: Any) -> StreamRun:
        return type(self._run)().restored(plain, "optimiser")

    def _check_saved_buffers(self, saved: Mapping[Any, Any]) -> None:
        params = self._parameters()
        for place, buffers in saved.items():
            if place not in range(len(params)):
                raise ValueError(
                    f"state has buffers of parameter {shown(place)}, but there are {len(params)}"
                )
            for name, value in buffers.items():
                if name not in self.buffers or not _fits(name, value, params[place]):
                    raise ValueError(
                        f"state does not fit: {name!r} of parameter {place} is not a finite "
                        "tensor of its shape"
                    )


def _fits(name: str, value: Any, p: torch.Tensor) -> bool:
    """Whether a saved value can be a buffer of a parameter, or the flag that it has a gradient."""
    if name == "given" or not isinstance(value, torch.Tensor):
        return name == "given" and isinstance(value, bool)
    right = value.dtype in (p.dtype, wide(p.dtype)) and value.shape == p.shape
    return right and bool(value.isfinite().all())


def check_multiplier(lr: float) -> None:
    """Check that ``lr`` can be a factor of a step of the right size."""
    if check_not_negative(lr, "lr") < LEAST_LR:
        raise ValueError(
            f"lr={lr!r} multiplies a step that is found without it, so that the parameters would "
            "hardly move: leave it out (to make steps smaller, use a scheduler or the lr of a "
            "parameter group)"
        )


def averaged(optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
    """Call :meth:`StreamOptimizer.averaged` of a wrapped optimiser, as by ``accelerate``.

    Parameters
    ----------
    optimizer
        An optimiser of :mod:`mixfree.torch`, or a wrapper with an attribute ``optimizer``, at any
        depth.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from mixfree.torch import MAG
    >>> wrapped = SimpleNamespace(optimizer=MAG([torch.nn.Parameter(torch.zeros(1))]))
    >>> with averaged(wrapped):
    ...     pass
    """
    inside: Any = optimizer
    while not isinstance(inside, StreamOptimizer):
        if not hasattr(inside, "optimizer"):
            raise ValueError(
                f"optimizer must be, or wrap, one of mixfree.torch, not {type(inside).__name__}"
            )
        inside = inside.optimizer
    return inside.averaged()
