"""Domains: projections are nearest points, diameters are largest distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import mixfree as mf
from mixfree.base.arithmetic import norm
from mixfree.domains import Entropic, Euclidean

SIZE = 5
DOMAINS = [
    mf.Ball(1.5),
    mf.Ball(0.7, center=np.arange(SIZE)),
    mf.Box(-0.5, 0.25).bind(SIZE),
    mf.Box(np.linspace(-2, -1, SIZE), np.linspace(0, 3, SIZE)),
    mf.Simplex(),
    mf.Simplex(3.0),
]
points = st.lists(st.floats(-1e6, 1e6), min_size=SIZE, max_size=SIZE).map(np.array)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@given(x=points, y=points)
@settings(max_examples=100, deadline=None)
def test_projection_is_the_nearest_point(domain, x, y):
    nearest, inside = domain.project(x), domain.project(y)
    scale = 1.0 + norm(x) + norm(y)
    assert norm(domain.project(nearest) - nearest) <= 1e-12 * scale
    # The variational inequality ⟨x − Πx, z − Πx⟩ ≤ 0 for every z of the set.
    assert (x - nearest) @ (inside - nearest) <= 1e-9 * scale**2
    assert norm(nearest - inside) <= min(norm(x - y), domain.diameter) * (1 + 1e-12) + 1e-9


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_diameter_is_reached(domain):
    rng = np.random.default_rng(0)
    ends = [domain.project(1e6 * rng.standard_normal(SIZE)) for _ in range(500)]
    ends += [domain.project(1e6 * s * e) for s in (-1, 1) for e in [*np.eye(SIZE), np.ones(SIZE)]]
    largest = max(norm(a - b) for a in ends for b in ends)
    assert largest <= domain.diameter * (1 + 1e-9)
    assert largest == pytest.approx(domain.diameter, rel=1e-3)


@pytest.mark.parametrize("make", [lambda v: mf.Ball(1.0, v).center, lambda v: mf.Box(v, 9.0).low])
def test_a_domain_cannot_be_changed(make):
    """Catches an array that stays writable, and one that is the caller's own."""
    given = np.arange(3.0)
    kept = make(given)
    given[0] = 7.0
    assert kept[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 7.0


def test_simplex_far_away_loses_no_digits():
    x = np.array([1e20, 1e20, 0.0])
    np.testing.assert_allclose(mf.Simplex().project(x), [0.5, 0.5, 0.0])


def test_entropic_step_is_the_mirror_step():
    rng = np.random.default_rng(3)
    x, displacement = 3.0 * rng.dirichlet(np.ones(SIZE)), rng.standard_normal(SIZE)

    def objective(z):
        return displacement @ z + np.sum(z * np.log(z / x))

    moved = Entropic().move(x, displacement, mf.Simplex(3.0))
    best = optimize.minimize(
        objective,
        x,
        bounds=[(1e-9, 3)] * SIZE,
        constraints={"type": "eq", "fun": lambda z: z.sum() - 3},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(moved, best.x, atol=1e-6)
    assert objective(moved) <= objective(best.x) + 1e-12


@pytest.mark.parametrize("mirror", [Euclidean(), Entropic()])
def test_displacements_add_up_in_the_dual(mirror):
    """From x to y and on is a step from y; catches a dual of another mirror map."""
    x, y = np.random.default_rng(4).dirichlet(np.ones(SIZE), size=2)
    step = np.linspace(-0.1, 0.1, SIZE)
    there = mirror.dual(x) - mirror.dual(y)
    np.testing.assert_allclose(mirror.move(x, there, mf.Simplex()), y, rtol=1e-12)
    np.testing.assert_allclose(
        mirror.move(x, there + step, mf.Simplex()), mirror.move(y, step, mf.Simplex()), rtol=1e-12
    )


def test_entropic_entries_can_come_back():
    x = Entropic().move(np.array([0.5, 0.5]), np.array([1e5, 0.0]), mf.Simplex())
    assert x[0] > 0.0
    for _ in range(2):
        x = Entropic().move(x, np.array([-1e3, 0.0]), mf.Simplex())
    assert x[0] > 0.99


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Ball(0.0), "radius must be positive"),
        (lambda: mf.Ball(1.0, center=[np.nan]), "center must be finite"),
        (lambda: mf.Ball(1.0, center=[0.0]).bind(2), "center has 1 entries"),
        (lambda: mf.Box(1.0, 0.0), "low must not exceed high"),
        (lambda: mf.Box([0, 0], [1, 1, 1]), "differ in length"),
        (lambda: mf.Box([0, 0], [1, 1]).bind(3), "low and high have 2"),
        (lambda: mf.Box(np.zeros((2, 2)), 1.0), "numbers or vectors"),
        (lambda: mf.Box(0.0, 1.0).diameter, "no diameter before bind"),
        (lambda: mf.Simplex(-1.0), "total must be positive"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
