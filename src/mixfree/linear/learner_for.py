"""Choose the learner for given parameters: exact where its sums fit in memory, else steps."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from mixfree.base.checks import check_bytes, check_one_of, check_whole, shown
from mixfree.core.method import Method
from mixfree.core.methods import methods
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.losses import Family, Loss, Squared

if TYPE_CHECKING:
    from mixfree.linear.learner import Learner

# Most weights per output for which "auto" chooses the exact learner. Other losses than the squared
# one keep rows: at 1,500 weights, too few of them fit into the default memory.
EXACT_WEIGHTS = 2000
EXACT_WEIGHTS_WITH_ROWS = 1000
MEMORY = "32MB"  # of rows to keep by default
SPARSE_ROWS = 1 << 13  # to keep by default of sparse rows: 32 MB at 340 non-zeros per row
AUTO = "auto"
SIZES = "'auto', a number of rows, or bytes"

LinearLearner = Union[ExactLearner, "Learner"]


def chosen_method(method: str | type[Method], loss: Loss, weights: int) -> str | type[Method]:
    """Return the method that ``"auto"`` stands for, with so many weights per output."""
    if not (isinstance(method, str) and method in ("auto", "exact", *methods())):
        if isinstance(method, type) and issubclass(method, Method):
            return method
        names = ", ".join(("auto", "exact", *methods()))
        raise ValueError(f"method must be one of {names}, not {shown(method)}")
    if method != "auto":
        return method
    most = EXACT_WEIGHTS if isinstance(loss, Squared) else EXACT_WEIGHTS_WITH_ROWS
    return "exact" if weights <= most and isinstance(loss, Family) else "ladder"


def learner_for(
    loss: Loss,
    columns: int,
    dtype: npt.DTypeLike = np.float64,
    *,
    method: str | type[Method] = "auto",
    fit_intercept: bool = True,
    l2: float | None = None,
    radius: float | None = None,
    memory: int | str | None = None,
    draws: int | None = None,
    half_life: float | str | None = None,
    scale: str | None = "auto",
    step_scale: float | None = None,
    output: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    looks_ahead: bool = False,
) -> LinearLearner:
    """Make the learner for the parameters of the estimators and of ``mixfree fit``."""
    found = chosen_method(method, loss, columns + bool(fit_intercept))
    if scale is not None:
        check_one_of(scale, "scale", ("auto", "running"))
    given: dict[str, Any] = {"radius": radius, "draws": draws, "step_scale": step_scale}
    given |= {"output": output, "options": options}
    given = {name: value for name, value in given.items() if value is not None}
    if found == "exact":
        for name in given:
            raise ValueError(f"`{name}` is for iterative methods, such as `method='ladder'`")
        given = {"half_life": half_life, "looks_ahead": looks_ahead, "l2": l2, "seed": seed}
        given |= {"dtype": dtype, "intercept": bool(fit_intercept)}
        kept = MEMORY if memory is None or memory == AUTO else memory
        return ExactLearner(loss, columns, memory=kept, **given)
    if half_life is not None:
        raise ValueError("`half_life` needs `method='exact'`")
    # Imported late: loading the compiler takes longer than most exact fits.
    from mixfree.linear.learner import Learner

    if memory is None:
        memory = AUTO if found == "ladder" else 0
    if memory == AUTO:
        given["sparse_memory"] = SPARSE_ROWS
    if isinstance(memory, str):
        size = check_bytes(MEMORY if memory == AUTO else memory, "memory", SIZES)
        memory = max(1, int(size / (8 * (columns + 2))))
    if check_whole(memory, "memory", least=0) == 0 and "draws" in given:
        raise ValueError("`draws` is for a memory: give its number of rows, such as `memory=2048`")
    given |= {"memory": memory, "scale": scale, "seed": seed}
    given |= {"dtype": dtype, "fit_intercept": bool(fit_intercept), "l2": l2 or 0.0}
    return Learner(loss, columns, found, **given)
