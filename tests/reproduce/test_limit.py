"""The limit against simulated fits, and claims about factors that are made up."""

from itertools import product

import numpy as np
import pytest

import mixfree as mf
from mixfree.reproduce import limit
from mixfree.reproduce.limit import METHODS, PROBLEMS
from mixfree.reproduce.paper.problem import mixing_time


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("p", [0.5, 0.05])
def test_the_limit_is_the_error_of_fits_to_long_streams(name, p):
    """States that are taken for independent, or twice the variance, give another limit."""
    problem, samples = limit.problem_of(name, 3), 20_000
    counts = [np.bincount(problem.order(seed, p, samples), minlength=200) for seed in range(300)]
    roots = [np.sqrt(count)[:, None] for count in counts]
    fits = [np.linalg.lstsq(r * problem.rows, r[:, 0] * problem.targets)[0] for r in roots]
    errors = problem.suboptimality(np.array(fits))
    mean, error = np.mean(errors), np.std(errors) / 300**0.5
    expected = problem.limit(p) / samples
    assert abs(mean - expected) < 4.0 * error, (mean, expected, error)
    assert error < 0.1 * expected


def made_up(factors):
    """Errors that are these factors times the limit, with noise that all methods share."""
    settings = limit.FULL.changed(seeds=20)
    noise = np.random.default_rng(0).exponential(size=settings.seeds)
    scale = dict(zip(settings.seed_numbers, 1e-3 * noise / noise.mean(), strict=True))
    return settings, [
        {**cell, "mixing_time": mixing_time(cell["p"]), "limit": 1e-3,
         "error": factors.get(cell["method"], 1.0) * scale[cell["seed"]]}
        for cell in limit.cells(settings)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, []),
        ({"sgd": 1.6}, [1]),
        ({"mag": 1.6}, [2, 3]),
        ({"adagrad": 0.8}, [3]),
        ({"ladder": 3.2}, [4]),
        ({"exact": 0.4}, [0, 1, 2, 4]),
    ],
)
def test_claims_are_about_their_methods(changed, failing):
    assert [mixing_time(p) for p in limit.SWITCHING] == [1, 10, 100, 1000, 10_000]
    settings, rows = made_up({"adagrad": 1.4, "ladder": 2.0, **changed})
    found = limit.report(rows, settings)
    assert [at for at, claim in enumerate(found.claims) if claim.holds is False] == failing
    over, beside = ({line[:2]: line[2:] for line in table.lines} for table in found.tables)
    assert len(over) == len(beside) == len(PROBLEMS) * len(METHODS)
    assert over["mean", "algorithm-1"][0].startswith("1.00 (")
    assert beside["mean", "sgd"][4].startswith(
        f"{changed.get('sgd', 1.0) / changed.get('exact', 1.0):.2f} ("
    )


def test_a_row_is_that_of_its_method_without_a_ball_for_the_ladder():
    """Catches another scale than that of the ball, and T of Algorithm 1 in samples."""
    cell = {"problem": "mean", "p": 0.5, "seed": 4, "samples": 1000}
    errors = {name: limit.measure({**cell, "method": name})[0]["error"] for name in METHODS}
    assert len(set(errors.values())) == len(METHODS)
    problem = limit.problem_of("mean", 4)
    targets = problem.targets[problem.order(limit._stream_seed(cell), 0.5, 1000)]
    opts = {
        "mag": mf.MAG([0.0], domain=mf.Ball(1.0), seed=4),
        "algorithm-1": mf.Algorithm1([0.0], horizon=142, domain=mf.Ball(1.0), seed=4),
        "ladder": mf.Ladder([0.0], seed=4),
    }
    for opt, y in product(opts.values(), targets):
        opt.tell(opt.x - y)
    points = {"exact": targets.mean(), **{name: opt.average[0] for name, opt in opts.items()}}
    for name, point in points.items():
        expected = 0.5 * (point - problem.targets.mean()) ** 2
        assert errors[name] == pytest.approx(expected, rel=1e-6), name
