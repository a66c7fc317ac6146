"""The experiments on methods after the paper: short versions, and verdicts from made-up rows."""

from dataclasses import replace

import numpy as np
import pytest

from mixfree.reproduce.after import accelerated, mirror, saddle


def verdicts(found):
    return [claim.verdict for claim in found.claims]


def test_acceleration_needs_fewer_steps():
    """From κ = 25 to 400: without momentum, or with κ ignored, 15 times as many are needed."""
    steps = {
        (method, condition): accelerated.measure(
            {"start": "far", "method": method, "condition": condition, "p": 0.1, "seed": 3}
        )[0]["steps"]
        for method in (accelerated.OURS, accelerated.PLAIN)
        for condition in (25.0, 400.0)
    }
    assert steps["rasgd", 400.0] < 6 * steps["rasgd", 25.0]
    assert steps[accelerated.PLAIN, 400.0] > 10 * steps[accelerated.PLAIN, 25.0]


@pytest.mark.parametrize("method", [accelerated.KNOWN, accelerated.FIXED, accelerated.MEAN])
def test_batches_of_the_runs_at_the_minimum(method):
    """B is ⌈τ log₂ M⌉ with M = 4 at κ = 100; catches one τ for all p, and a start elsewhere."""
    opt = accelerated.make(method, 100.0, 0.01, seed=0)
    sizes = {accelerated.KNOWN: 70, accelerated.FIXED: 2, accelerated.MEAN: 158}
    assert opt.gradient.batch == sizes[method]
    cell = {"start": "minimum", "method": method, "condition": 100.0, "p": 0.01, "seed": 0}
    (row,) = accelerated.measure({**cell, "samples": 3000})
    assert row["samples"] == 3000 and 0.0 < row["error"] < 1e4


def made_up(accelerated_exponent, time_exponent):
    """Rows whose errors are power laws."""
    far = [
        {"start": "far", "method": method, "condition": condition, "seed": seed}
        | {"steps": condition**power * (1.0 + 0.01 * seed)}
        for seed in range(5)
        for condition in accelerated.CONDITIONS
        for method, power in (
            (accelerated.OURS, accelerated_exponent),
            (accelerated.PLAIN, 1.0),
        )
    ]
    near = [
        {"start": "minimum", "method": method, "mixing_time": time, "seed": seed}
        | {"error": time**power * (1.0 + 0.01 * seed)}
        for seed in range(5)
        for time in (4, 12, 35)
        for method, power in (
            (accelerated.KNOWN, time_exponent),
            (accelerated.FIXED, 1.0),
            (accelerated.MEAN, 0.0),
        )
    ]
    return far + near


@pytest.mark.parametrize(
    ("powers", "expected"),
    [
        ((0.5, 0.0), ["holds"] * 4),
        ((1.0, 0.0), ["does not hold", "holds", "holds", "holds"]),
        ((0.5, 0.5), ["holds", "holds", "does not hold", "holds"]),
    ],
)
def test_verdicts_on_acceleration(powers, expected):
    settings = replace(accelerated.FULL, p=(0.1, 0.03, 0.01), seeds=5)
    assert verdicts(accelerated.report(made_up(*powers), settings)) == expected


def test_the_game():
    """The uniform mixture is its equilibrium: no answer gains, and every other mixture loses."""
    payoffs = saddle.PAYOFFS
    assert (payoffs == -payoffs.T).all() and (np.sum(payoffs > 0, axis=1) == 2).all()
    np.testing.assert_allclose(payoffs @ saddle.SOLUTION, 0.0, atol=1e-15)
    others = np.random.default_rng(0).dirichlet(np.ones(5), size=50)
    assert all(np.max(-payoffs @ x) > 0.0 for x in others)


def test_extragradient_needs_fewer_steps():
    """From L/μ = 5 to 20: the second step of a pair from the half point needs 16 times as many."""
    steps = {
        (method, condition): saddle.measure(
            {"game": False, "method": method, "condition": condition, "p": 0.1, "seed": 3}
        )[0]["steps"]
        for method in (saddle.REGULAR, saddle.DESCENT)
        for condition in (5.0, 20.0)
    }
    assert steps["reg", 20.0] < 5 * steps["reg", 5.0]
    assert steps["descent", 20.0] > 10 * steps["descent", 5.0]


@pytest.mark.parametrize("method", [saddle.EUCLIDEAN, saddle.ENTROPIC])
def test_the_average_of_a_game_approaches_the_equilibrium(method):
    """From 0.8 to a tenth; catches a sign of the operator, with which the vertices attract."""
    cell = {"game": True, "method": method, "p": 0.1, "seed": 3, "samples": 8000}
    (row,) = saddle.measure(cell)
    assert 0.0 < row["exploitability"] < 0.3


@pytest.mark.parametrize(
    ("powers", "expected"),
    [
        ((1.0, -0.5, 0.0), ["holds"] * 4),
        ((2.0, -0.5, 0.0), ["does not hold", "holds", "holds", "holds"]),
        ((1.0, -0.2, 0.0), ["holds", "holds", "does not hold", "holds"]),
        ((1.0, -0.5, 0.5), ["holds", "holds", "holds", "does not hold"]),
    ],
)
def test_verdicts_on_the_game(powers, expected):
    in_condition, in_samples, in_time = powers
    settings = replace(saddle.FULL, seeds=5)
    rows = []
    for cell in saddle.cells(settings):
        wobble = 1.0 + 0.01 * (cell["seed"] % 5)
        if cell["game"]:
            time = saddle.mixing_time(cell["p"])
            value = (cell["samples"] / time) ** in_samples * time**in_time * wobble
            rows.append({**cell, "mixing_time": time, "exploitability": value})
        else:
            power = 2.0 if cell["method"] == saddle.DESCENT else in_condition
            rows.append({**cell, "steps": cell["condition"] ** power * wobble})
    assert verdicts(saddle.report(rows, settings)) == expected


def test_the_geometry_of_the_simplex():
    """At d = 30 the three need about 1,200, 1,500 and 8,000 samples; with a norm for another, or
    with the vertices exchanged, they do not."""
    cell = {"dimension": 30, "p": 0.01, "seed": 3, "most": 50_000}
    found = {
        method: mirror.measure({**cell, "method": method})[0]["samples"]
        for method in (mirror.EUCLIDEAN, mirror.ENTROPIC, mirror.WRONG)
    }
    assert found[mirror.ENTROPIC] < 3000
    assert 2 * found[mirror.ENTROPIC] < found[mirror.WRONG] < 50_000


@pytest.mark.parametrize(("power", "expected"), [(0.2, "holds"), (1.0, "does not hold")])
def test_verdicts_on_the_simplex(power, expected):
    settings = replace(mirror.FULL, seeds=5)
    rows = [
        {**cell, "samples": cell["dimension"] ** of * (1.0 + 0.01 * (cell["seed"] % 5))}
        for cell in mirror.cells(settings)
        for of in [power if cell["method"] == mirror.ENTROPIC else 1.0]
    ]
    assert verdicts(mirror.report(rows, settings)) == [expected, "holds"]
