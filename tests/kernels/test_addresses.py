"""Where arrays lie in memory changes no bit of a result.

LLVM compares addresses before it runs a loop in vector registers, and takes arrays that lie close
behind each other for arrays that may overlap; a sum taken in another order has other bits.
"""

from functools import partial
from itertools import permutations, product
from unittest import mock

import numpy as np
import pytest

import mixfree as mf
from mixfree.kernels import runner
from mixfree.kernels.linear import RunningUnits, standardise
from mixfree.kernels.plan import run_of
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Logistic, Softmax, Squared
from tests.helpers import assert_same_bits, make

ARENA = np.zeros(1 << 20, np.uint8)
FAR = 1 << 16
RUN = ("x", "total", "sums", "kept", "gradient", "table", "sketch")
LOSSES = {
    "squared": (Squared(), 0.0),
    "ridge": (Squared(), 0.1),
    "logistic": (Logistic(), 0.0),
    "softmax": (Softmax(3), 0.0),
}


def at(place, values):
    """A copy that begins ``place`` bytes into the arena, at a multiple of its item's size."""
    place += -(ARENA.ctypes.data + place) % values.itemsize
    copy = ARENA[place : place + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def laid_out(arrays, first=None, second=None, gap=0):
    """Copies far from each other, except that ``second`` begins ``gap`` bytes behind ``first``."""
    assert all(values.nbytes < FAR // 2 for values in arrays.values())
    found = {name: at(i * FAR, values) for i, (name, values) in enumerate(arrays.items())}
    if first is not None:
        end = found[first].ctypes.data + found[first].nbytes - ARENA.ctypes.data
        found[second] = at(end + gap, arrays[second])
    return found


def run_over(rows, loss, make_opt, close, order, l2):
    """The state after a run whose arrays lie as told; the rows are at the arena's beginning."""

    def placed(opt, state):
        run = run_of(opt, state)
        lying = laid_out({"rows": rows, **{name: getattr(run, name) for name in RUN}}, *close)
        assert lying["rows"].ctypes.data == rows.ctypes.data
        return run._replace(**{name: lying[name] for name in RUN})

    opt = make_opt()
    with mock.patch.object(runner, "run_of", placed):
        advance_linear(opt, loss, rows, np.ones(2, rows.dtype), order=order, l2=l2)
    return opt.state_dict()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LOSSES)
@pytest.mark.parametrize("name", ["sgd", "mag", "ladder"])
def test_of_a_run(name, case, dtype):
    (loss, l2), rng = LOSSES[case], np.random.default_rng(0)
    behind = RUN if name == "ladder" else RUN[:-2]
    for dimension, intercept in product((5, 7, 16, 33), (0, 1)):
        start = np.zeros(loss.outputs * (dimension + intercept), dtype)
        rows = at(0, rng.standard_normal((2, dimension)).astype(dtype))
        begin, order = partial(make, name, start, mf.Ball(1.0)), rng.integers(0, 2, 70)
        run = partial(run_over, rows, loss, begin, order=order, l2=l2)
        apart = run(())
        for first, second in product(("rows", *behind), behind):
            if first != second:
                assert_same_bits(run((first, second, int(rng.integers(0, 64)))), apart)


def standardised(arrays, close):
    """All arrays after standardising the rows, lying as told."""
    lying = laid_out(arrays, *close)
    rows, *state, out = lying.values()
    units = RunningUnits(*state, True, 16.0)
    assert standardise(units, rows, out) == 2
    return {name: values.copy() for name, values in lying.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_the_running_scale(dtype):
    rng = np.random.default_rng(1)
    for columns in (1, 3, 7, 16, 33):
        rows = rng.standard_normal((2, columns)).astype(dtype)
        arrays = {
            "rows": rows,
            "due": np.array([0]),
            "count": np.array([5]),
            "mean": rng.standard_normal(columns),
            "spread": 5.0 + rng.random(columns),
            "shift": rng.standard_normal(columns),
            "inverse": 1.0 + rng.random(columns),
            "out": np.zeros_like(rows),
        }
        apart = standardised(arrays, ())
        for first, second in permutations(arrays, 2):
            close = first, second, int(rng.integers(0, 64))
            assert_same_bits(standardised(arrays, close), apart)
