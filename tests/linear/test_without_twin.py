"""Custom parts and losses, which have no kernel, work everywhere at the speed of the reference."""

from dataclasses import dataclass

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear import Squared, advance_linear, linear_gradient
from mixfree.sklearn import StreamRegressor
from mixfree.steps import InverseSqrt
from tests.helpers import assert_same_bits

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((300, 3))
TARGETS = ROWS @ [1.0, -2.0, 0.5] + 1.0


@dataclass(frozen=True)
class Slower(InverseSqrt):
    """η_t = α/(1 + √t): a step that no kernel knows."""

    def move(self, state, direction, step, x):
        return self.alpha / (1.0 + np.sqrt(step)) * direction


class Own(mf.Method):
    name = "own"

    def __init__(self, x0, *, batch=1, **common):
        super().__init__(x0, mf.gradients.MiniBatch(batch), Slower, **common)


class Pinball:
    """The loss of the median, which no kernel knows."""

    outputs = 1

    def value(self, prediction, target):
        return np.abs(prediction - target)

    def derivative(self, prediction, target):
        return np.sign(prediction - target)


def by_hand(loss, opt, weights=None, l2=0.0):
    for r, (row, target) in enumerate(zip(ROWS, TARGETS, strict=True)):
        weight = 1.0 if weights is None else weights[r]
        opt.tell(linear_gradient(loss, opt.x, row, target, l2, weight))
    return opt


@pytest.mark.parametrize("batch", [1, 4])
def test_a_step_of_ones_own(batch):
    """Caught: a kernel that takes the step for the one it is derived from."""
    opt = Own(np.zeros(4), batch=batch, alpha=0.5)
    expected = by_hand(Squared(), Own(np.zeros(4), batch=batch, alpha=0.5)).state_dict()
    advance_linear(opt, Squared(), ROWS, TARGETS)
    assert_same_bits(opt.state_dict(), expected)
    model = StreamRegressor(method=Own, step_scale=0.5, scale=None, options={"batch": batch})
    for start in range(0, 300, 70):
        model.partial_fit(ROWS[start : start + 70], TARGETS[start : start + 70])
    assert_same_bits(model.learner_.optimizer.state_dict(), expected)


def test_a_loss_of_ones_own():
    """Caught: weights or l2 that the reference loop forgets."""
    weights = RNG.random(300)
    opt = mf.AdaGrad(np.zeros(4))
    advance_linear(opt, Pinball(), ROWS, TARGETS, weights=weights, l2=0.1)
    expected = by_hand(Pinball(), mf.AdaGrad(np.zeros(4)), weights, 0.1)
    assert_same_bits(opt.state_dict(), expected.state_dict())
    model = StreamRegressor(loss=Pinball(), method="ladder").fit(ROWS, TARGETS)
    assert model.score(ROWS, TARGETS) > 0.5
