"""A linear model that learns by steps: an optimiser, a loss and the units of the columns."""

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from mixfree.base.arithmetic import Array, norm
from mixfree.base.checks import check_not_negative, check_values
from mixfree.core.method import Method
from mixfree.core.methods import start_method
from mixfree.core.optimizer import Optimizer
from mixfree.domains import Ball
from mixfree.gradients import Replay, Reservoir
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Logistic, Loss, Softmax, predictions
from mixfree.linear.scaling import Rescaling, RunningScale, Units
from mixfree.linear.sparse import SparseLinear, runs_sparse
from mixfree.steps import Profile

# First distance as a fraction of a Kaczmarz step; too long a step costs more than too short a one.
SHARE = 0.1
VALUES = 1 << 21  # most entries to copy or standardise at a time
ROOM = 1 << 27  # most entries of sparse rows in memory, where they are kept as dense rows


class Learner:
    """Learns the weights of a linear model by steps; the chunking of the rows does not matter.

    Parameters are as for the estimators. ``memory`` is a number of rows that are kept in a
    reservoir (:class:`mixfree.gradients.Reservoir`), of rows that are learnt as sparse ones
    ``sparse_memory``, if given. A run that begins with sparse rows learns all rows as such.
    """

    def __init__(
        self,
        loss: Loss,
        columns: int,
        method: str | type[Method] = "ladder",
        *,
        dtype: npt.DTypeLike = np.float64,
        fit_intercept: bool = True,
        l2: float = 0.0,
        radius: float | None = None,
        scale: str | None = "auto",
        memory: int = 0,
        sparse_memory: int | None = None,
        draws: int = 1,
        step_scale: float | None = None,
        output: str | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.loss, self.columns, self.l2 = loss, columns, check_not_negative(l2, "l2")
        self._intercept = int(fit_intercept)
        start = np.zeros(loss.outputs * (columns + self._intercept), dtype)
        self.dtype = start.dtype
        domain = None if radius is None else Ball(radius)
        common: dict[str, Any] = {"domain": domain, "alpha": step_scale, "output": output}
        common |= {"seed": seed, "draws": draws, "memory": memory}
        self._start = partial(start_method, method, start, options or {}, **common)
        self.optimizer: Optimizer = self._start()
        self._sparse_memory = memory if sparse_memory is None else sparse_memory
        replays = isinstance(self.optimizer.gradient, Replay)
        if scale == "running" and replays:
            raise ValueError(
                f"`scale='running'` does not work with {self.optimizer.name}, which replays rows "
                "in fixed units: use `scale='auto'`"
            )
        self._may_do_without_scale = scale == "auto"
        self._scale: RunningScale | None = None
        if scale is not None and not replays:
            self._scale = RunningScale(columns, centred=bool(fit_intercept))
        self._sparse: SparseLinear | None = None

    @property
    def weights(self) -> Array:
        """The output point in the units of the rows: one row per output, the intercept last."""
        point, outputs = self._running.average, self.loss.outputs
        if self._scale is not None:
            original = Units(np.zeros(self.columns), np.ones(self.columns))
            change = Rescaling(outputs, self._intercept, self._scale.current, original)
            point = change.function(point)
        return point.reshape(outputs, -1)

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.optimizer.name

    @property
    def samples(self) -> int:
        """Rows learnt from."""
        return self._running.samples

    def advance(self, rows: Any, targets: Array, weights: Array | None = None) -> None:
        """Learn from rows in order: from all of them or, with an error, none.

        An error if a value is above 1e75, or a row's gradient is not finite.
        """
        sparse_rows, optimizer = issparse(rows), self.optimizer
        check_values(rows=rows.data if sparse_rows else rows, targets=targets)
        lazy = self._sparse is not None
        if sparse_rows and self.samples == 0:
            lazy = runs_sparse(optimizer, self.loss, self.l2)
        # A lazy run over sparse rows does not change the optimiser's own arrays.
        before = optimizer.export_run(own=not lazy)
        # Sparse rows do not change the running scale either, which is as large as the weights.
        scale, sparse = self._scale if sparse_rows else copy.deepcopy(self._scale), self._sparse
        try:
            if lazy and sparse is None:
                self.optimizer = self._start(memory=self._sparse_memory)
                self._sparse = SparseLinear(self.optimizer, self.loss)
            self._advance(rows, targets, weights)
        except BaseException:
            self.optimizer, self._scale, self._sparse = optimizer, scale, sparse
            optimizer.import_run(before)
            raise

    def predict(self, rows: Any) -> Array:
        """Return predictions: one column per output, or a vector if there is only one."""
        return predictions(self.weights.ravel(), rows, self.loss.outputs)

    def losses(self, rows: Any, targets: Array) -> Array:
        """Return the loss of each row, without regularisation."""
        return np.asarray(self.loss.value(self.predict(rows), targets))

    def profile(self) -> Profile | None:
        """Return the correlation profile of the gradients; None if the step has none.

        With memory there is none either, since gradients are not taken in the stream's order.
        """
        has_profile = hasattr(self.optimizer.step, "profile")
        remembers = isinstance(self.optimizer.gradient, Reservoir)
        return self.settle().profile() if has_profile and not remembers else None

    def settle(self) -> Optimizer:
        """Return the optimiser, with the lazy run over sparse rows written back to it."""
        return self.optimizer if self._sparse is None else self._sparse.settle()

    @property
    def _running(self) -> Optimizer | SparseLinear:
        return self.optimizer if self._sparse is None else self._sparse

    def _advance(self, rows: Any, targets: Array, weights: Array | None) -> None:
        if sparse_rows := issparse(rows):
            if self._may_do_without_scale and self.samples == 0:
                self._scale = None
            if self._scale is not None:
                raise ValueError("`scale='running'` needs dense rows: use `scale='auto'`")
            size = 0 if self._sparse is not None else getattr(self.optimizer.gradient, "size", 0)
            if size * self.columns > ROOM:
                raise ValueError(
                    f"`memory={size}` keeps dense rows, too many of {self.columns:,} columns: give "
                    f"`memory={ROOM // self.columns}` at most, or `memory=0`"
                )
        if self.samples == 0 and rows.shape[0]:
            self._guess_distance(rows[:1].data if sparse_rows else rows[0], float(targets[0]))
        if self._sparse is not None:
            self._sparse.advance(rows if sparse_rows else csr_array(rows), targets, weights)
            return
        tell = self._tell if self._scale is None else partial(self._tell_scaled, self._scale)
        chunk = max(1, VALUES // max(self.columns, 1))
        for start in range(0, rows.shape[0], chunk):
            piece = slice(start, start + chunk)
            factors = None if weights is None else weights[piece]
            tell(dense(rows[piece]), targets[piece], factors)

    def _tell(self, rows: Array, targets: Array, weights: Array | None) -> None:
        advance_linear(self.optimizer, self.loss, rows, targets, weights=weights, l2=self.l2)

    def _guess_distance(self, row: Array, target: float) -> None:
        """Start steps that search for their scale at a fraction of a Kaczmarz step.

        It is |target|/‖row‖, or 1/‖row‖ where the target is a class, and has the units of the
        weights. The first standardised row is zero, but later ones have a norm of about √columns.
        """
        length = norm(row) if self._scale is None else math.sqrt(self.columns)
        length = math.hypot(length, self._intercept)
        residual = 1.0 if isinstance(self.loss, Logistic | Softmax) else abs(target)
        if residual > 0.0 and length > 0.0:
            self._running.begin(SHARE * residual / length)

    def _tell_scaled(
        self, scale: RunningScale, rows: Array, targets: Array, weights: Array | None
    ) -> None:
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        done, room = 0, np.empty_like(rows)
        while done < len(rows):
            piece = scale.take(rows[done:], room)
            now = slice(done, done + len(piece))
            self._tell(piece, targets[now], None if weights is None else weights[now])
            done = now.stop
            if scale.due:
                units = scale.change(rows[done])
                self.optimizer.change_units(Rescaling(self.loss.outputs, self._intercept, *units))

    def state_dict(self) -> dict[str, Any]:
        """Return the state as numbers and copies of arrays."""
        lazy = self._sparse is not None
        return {
            "optimizer": None if lazy else self.optimizer.state_dict(),
            "sparse": self._sparse.plain() if self._sparse is not None else None,
            "scale": self._scale.plain() if self._scale is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a learner of the same arguments; an error changes nothing."""
        if not isinstance(state, Mapping) or state.keys() != {"optimizer", "sparse", "scale"}:
            raise ValueError("state must be of an iterative learner")
        without = self._may_do_without_scale and state["scale"] is None
        scale = None if without else self._scale
        if (scale is None) != (state["scale"] is None):
            raise ValueError("state and learner differ in scale: only one of the two standardises")
        if scale is not None:
            scale = copy.deepcopy(scale).restored(state["scale"], "running scale")
        sparse = None
        if state["sparse"] is not None:
            run = self._start(memory=self._sparse_memory)
            sparse = SparseLinear(run, self.loss).restored(state["sparse"], "sparse run")
        else:
            run = self._start()
            run.load_state_dict(state["optimizer"])
        self.optimizer, self._sparse, self._scale = run, sparse, scale


def dense(rows: Any) -> Array:
    """Convert rows to a writeable array, for which alone code is compiled."""
    found: Array = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return found if found.flags.writeable else found.copy()
