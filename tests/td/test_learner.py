"""The learner: the update of Section 5.2 by hand, its compiled twin, episodes, bad input."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.td import RewardProcess, TDLearner, rescaled, td_methods
from tests.helpers import assert_same_bits

GAMMA, RADIUS = 0.8, 3.0
METHODS = [name for name, method in td_methods().items() if not method.needs_mixing_time()]


def process(states=6, size=3, ends=True):
    rng = np.random.default_rng(4)
    P = rng.exponential(size=(states, states))
    P *= (0.8 if ends else 1.0) / P.sum(axis=1, keepdims=True)
    features = rescaled(rng.standard_normal((states, size)))
    start = np.full(states, 1.0 / states) if ends else None
    return RewardProcess(P, rng.standard_normal(states), GAMMA, features, start=start)


def learner(features, method="mag", **options):
    if method in ("projected-td", "algorithm-1"):
        options = {"horizon": 400, **options}
    return TDLearner(features, GAMMA, RADIUS, method, seed=1, **options)


@pytest.mark.parametrize("levels", [3, None])
def test_mag_is_the_equation(levels):
    """MAG along the semi-gradients, with α = √2·R; what MAG does is tested with it."""
    mrp = process()
    phi, path = mrp.features, mrp.simulate(400, seed=2)
    found = TDLearner(phi, GAMMA, RADIUS, seed=1, levels=levels)
    mag = mf.MAG(np.zeros(3), domain=mf.Ball(RADIUS), alpha=2**0.5 * RADIUS, levels=levels, seed=1)
    for s, reward, after, terminated in zip(*path, strict=True):
        found.update(s, reward, after, terminated)
        ahead = 0.0 if terminated else phi[after] @ mag.x
        mag.tell(-(reward + GAMMA * ahead - phi[s] @ mag.x) * phi[s])
    assert mag.steps > 50
    np.testing.assert_allclose(found.theta, mag.x, rtol=1e-10)
    np.testing.assert_allclose(found.average, mag.average, rtol=1e-10)
    assert found.value(2) == pytest.approx(phi[2] @ mag.average)


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "matrix") for name in METHODS), ("mag", "function")]
)
def test_compiled_twin_step_by_step(name, kind):
    mrp = process()
    path = mrp.simulate(300, seed=3)
    features, size = (mrp.features, None) if kind == "matrix" else (mrp.features.__getitem__, 3)
    one, other = (learner(features, name, size=size) for _ in range(2))
    for i in range(300):
        one.update(*(part[i] for part in path))
        other.update_many(*(part[i : i + 1] for part in path))
        np.testing.assert_allclose(other.theta, one.theta, rtol=1e-11, atol=1e-13)
    whole = learner(features, name, size=size)
    whole.update_many(*path)
    np.testing.assert_array_equal(whole.theta, other.theta)
    np.testing.assert_array_equal(whole.average, other.average)
    assert whole.samples == 300


def test_nothing_comes_after_the_end():
    """The state after the end is not looked at: it need not even exist."""
    single, many = (learner(np.eye(2), "adagrad") for _ in range(2))
    many.update_many([], [], [], [])  # whose elements NumPy takes for floating-point numbers
    assert many.samples == 0
    many.update_many([0], [1.0], [99], [True])
    single.update(0, 1.0, 99, True)
    for found in (single, many):
        np.testing.assert_allclose(found.theta, [RADIUS, 0.0])


def projected(radius=100.0, **options):
    return TDLearner(np.eye(3), GAMMA, radius, "projected-td", **options)


def test_projected_td_has_the_three_step_sizes():
    for options, sizes in (
        ({"horizon": 16}, [0.25, 0.25, 0.25]),
        ({"step_size": 0.1}, [0.1, 0.1, 0.1]),
        ({"omega": 0.5}, [10.0, 5.0, 10.0 / 3.0]),
    ):
        found = projected(**options)
        for state, size in enumerate(sizes):
            found.update(state, 1.0, 0, True)
            assert found.theta[state] == pytest.approx(size)


LSTD, MAG = {"lam": 0.5}, {"radius": RADIUS}


@pytest.mark.parametrize(
    ("options", "transition", "message"),
    [
        (MAG, (0, np.nan, 1, False), "reward of transition 2 must be finite, not nan"),
        (LSTD, (0, -np.inf, 1, True), "reward of transition 2 must be finite, not -inf"),
        (MAG, (7, 1.0, 1, False), "state 7 must be a row number"),
        (LSTD, (0, 1.0, -1, False), "state -1 must be a row number"),
        (MAG, (0, 1e305, 1, False), "(transition|sample) 2 is"),
        (LSTD, (0, -1e200, 1, False), r"reward of transition 2 must be at most 1e\+75"),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_bad_transitions_change_nothing(options, transition, message, many):
    """Of MAG and of least squares, whose trace goes on as if nothing had been offered."""
    found = TDLearner(np.eye(2), GAMMA, **options)
    found.update(0, 1.0, 1, False)
    before = found.state_dict()
    with pytest.raises(ValueError, match=message):
        if many:
            found.update_many(*([entry] for entry in transition))
        else:
            found.update(*transition)
    assert found.samples == 1
    assert_same_bits(found.state_dict(), before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TDLearner(np.eye(2), 1.0), r"gamma must be in \[0, 1\), not 1.0"),
        (lambda: learner(np.eye(2)).update_many([0], [1.0], [1], ["False"]), "True or False, not"),
        (lambda: TDLearner(np.eye(2), 0.9, radius=0.0), "radius must be positive"),
        (lambda: TDLearner(np.eye(2), 0.9, method="sgd-er"), "method must be one of"),
        (lambda: TDLearner(np.eye(2), 0.9, method="mag"), "mag takes .*: give it.*'ladder'"),
        (lambda: projected(), "takes one of horizon"),
        (lambda: projected(horizon=5, omega=0.1), "takes one of horizon .* not horizon, omega"),
        (lambda: projected(radius=None, horizon=5), "needs radius"),
        (lambda: TDLearner(2.0 * np.eye(2), 0.9), "norm 2, above 1"),
        (lambda: TDLearner(lambda s: [1.0], 0.9), "give size"),
        (lambda: learner(np.eye(2)).update_many([0], [1.0, 2.0], [1], [False]), "the same length"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
