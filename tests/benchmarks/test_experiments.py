"""The experiments of ``benchmarks/``: their streams and oracles, and verdicts on made-up rows."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import gap, intervals, ladder, run, sensitivity
from mixfree.linear.losses import Huber, Logistic, Squared
from mixfree.reproduce.engine.report import Settings
from mixfree.reproduce.paper.problem import run_cell
from tests.reproduce.helpers import cross, lines_of


def test_a_benchmark_runs_by_its_name_and_reports(tmp_path, capsys):
    run.main(["gap", "--quick", "--seeds", "3", "--jobs", "1"], results=tmp_path)
    report = (tmp_path / "gap-quick" / "report.md").read_text(encoding="utf-8")
    assert "No verdicts: they need" in report and "| logistic, wide |" in report
    with pytest.raises(SystemExit):
        run.main(["gap", "nothing"], results=tmp_path)
    assert "there is no 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(("held", "holds"), [(0.98, True), (0.95, None), (0.88, False)])
def test_the_verdict_on_the_gap_is_of_the_worst_loss(held, holds):
    rows = cross(loss=gap.LOSSES, seed=range(300), lost=[1.0], estimate=[1.0], upper=[2.0])
    for row in rows:
        share = held if row["loss"] == "softmax" else 0.99
        row |= {
            "order": gap.ORDERS[row["seed"] % 3],
            "held": float(row["seed"] % 100 < 100 * share),
        }
    (claim,) = gap.report(rows, Settings(4000, 300)).claims
    assert claim.holds is holds and "(softmax)" in claim.measured


@pytest.mark.parametrize("model", intervals.MODELS)
def test_the_expected_gradient_is_0_at_the_best_weights(model):
    """Weights of the truth itself are not the best of models that are not right about it."""
    x, y = intervals.stream(model, 400_000, 0.5, seed=0)
    z = np.c_[x, np.ones(len(x))]

    def off(weights):
        slope = intervals.loss_of(model).derivative(z @ weights, y)
        gradient = (slope[:, None] * z).reshape(400, 1000, 4).mean(axis=1)
        return np.abs(gradient.mean(axis=0) / gradient.std(axis=0, ddof=1) * 20.0).max()

    assert off(intervals.best_weights(model)) < 4.0
    assert (off([1.0, -0.5, 0.0, 0.5]) > 20.0) == (model in ("quadratic", "probit", "poisson"))


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_errors_of_newey_and_west_by_their_definition(loss):
    """Lags counted from one off, or weights of another kernel, give other sums."""
    x, y = intervals.stream("linear" if loss == Squared() else "logit", 300, 0.5, seed=2)
    weights, z = np.array([0.9, -0.4, 0.1, 0.3]), np.c_[x, np.ones(300)]
    score = loss.derivative(z @ weights, y)[:, None] * z
    ahead, behind = (loss.derivative(z @ weights + step, y) for step in (1e-5, -1e-5))
    inverse = np.linalg.inv(z.T @ (z * (ahead - behind)[:, None] / 2e-5))
    apart = np.abs(np.subtract.outer(np.arange(300), np.arange(300)))
    for lags in (0, 5):
        kernel = np.maximum(1.0 - apart / (lags + 1.0), 0.0)
        wanted = np.sqrt(np.diag(inverse @ score.T @ kernel @ score @ inverse))
        found = intervals.sandwich_errors(loss, weights, x, y, lags)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("coverage", "warned", "others", "left", "holds"),
    [
        ({0.0: 0.95, 0.9: 0.94, 0.98: 0.92}, False, (-0.005, 0.95), 0.02, [True] * 8),
        (
            {0.0: 0.99, 0.9: 0.93, 0.98: 0.88},
            True,
            (0.03, 1.05),
            0.05,
            [None, False, False, True, False, True, None, False],
        ),
        (
            {0.0: 0.95, 0.9: 0.90, 0.98: 0.85},
            False,
            (0.0, 0.9),
            0.08,
            [False, True, False, False, None, False, False, False],
        ),
    ],
)
def test_coverage_is_judged_by_its_interval(coverage, warned, others, left, holds):
    """The intervals here are of about ± 1.3 %; rows as independent always hold half.

    ``others`` is what EWC and Newey–West with fixed b cover more, and their width over ours.
    """
    more, width = others
    covers = {intervals.OURS: 0.0, intervals.FIXED_B: more, intervals.EWC: more}
    methods = (*covers, intervals.HAC, intervals.INDEPENDENT)
    rows = cross(model=intervals.MODELS, rho=coverage, rows=(2000, 20_000), seed=range(6),
                 method=methods)  # fmt: skip
    for row in rows:
        method = row["method"]
        covered = coverage[row["rho"]] + covers[method] if method in covers else 0.5
        row |= {
            "covered": covered + 0.02 * (-1) ** row["seed"],
            "half": 1.0 if method == intervals.OURS else width,
            "errors of first": [0.1 * row["seed"]],
            "halves of first": [1.0],
            "warned": method == intervals.OURS and row["rows"] == 2000 and warned,
        }
    shares = {"ordinary": 0.4, "anytime": left}
    rows += [
        {**row, "left": shares[row["method"]] + 0.01 * (-1) ** row["seed"]}
        for row in cross(model=[intervals.WATCHED], rho=coverage, rows=[50_000], seed=range(6),
                         method=shares)
    ]  # fmt: skip
    numbers = dict.fromkeys(("worst 1,000 rows", "width", "fixed: coverage", "fixed: width"), 1.0)
    numbers |= {"model": intervals.NEW, "stream": "steady", "coverage": 0.92 - left}
    rows += [{**numbers, "seed": seed} for seed in range(6)]
    found = intervals.report(rows, Settings(20_000, 6))
    assert [claim.holds for claim in found.claims] == holds
    assert lines_of(found.tables[0])[0][intervals.OURS] == (
        f"{100 * coverage[0.0]:.1f} [{1 / width:.2f}]"
    )


CELL = {"p": 0.01, "seed": 3, "samples": 1500}


def errors_of(name):
    rows = sensitivity.measure({**CELL, "choice": name})
    return {row["method"]: row["suboptimality"] for row in rows}


@pytest.fixture(scope="module")
def as_set():
    return errors_of(sensitivity.UNCHANGED)


def test_as_set_is_figure_1(as_set):
    """Catches another problem, stream, seed of the levels, start or scale."""
    for method, error in as_set.items():
        expected = run_cell({**CELL, "method": method}).suboptimality[-1]
        assert error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "name", [n for n in sensitivity.CHOICES if not n.startswith((sensitivity.UNCHANGED, "radius"))]
)
def test_a_choice_changes_what_it_says(name, as_set):
    """Catches an option that is not passed on, and one that is passed to every method."""
    found, choice = errors_of(name), sensitivity.CHOICES[name]
    assert np.isfinite(list(found.values())).all() and min(found.values()) > 0.0
    changed = {method for method in found if found[method] != as_set[method]}
    assert changed == (choice.own.keys() or as_set.keys())


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, [True, "holds", "holds"]),
        ({"mag": 1.5}, [False, "fails", "fails"]),  # worse than AdaGrad
        ({"sgd-mlmc": 5.0}, [False, "holds", "fails"]),  # worse than SGD
        ({"sgd-mlmc": 0.05}, [False, "fails", "holds"]),  # better than MAG
        ({"mag": 1.0}, [None, "not decided", "not decided"]),
    ],
)
def test_verdicts_on_choices(changed, holds):
    """Methods exchanged, a verdict by one pair alone, or streams that are not paired would show."""
    factors = {"sgd": 3.0, "adagrad": 1.0, "sgd-mlmc": 2.0, "mag": 0.1} | changed
    common, noise = np.random.default_rng(0).lognormal(size=30), np.random.default_rng(1)
    rows = [
        {"choice": sensitivity.UNCHANGED, "p": 1e-4, "seed": seed, "method": method,
         "suboptimality": factor * scale * noise.lognormal(sigma=0.05)}
        for seed, scale in enumerate(common)
        for method, factor in factors.items()
    ]  # fmt: skip
    found = sensitivity.report(rows, sensitivity.FULL)
    line = lines_of(found.tables[0])[0]
    assert [found.claims[0].holds, *(line[half] for half in sensitivity.HALVES)] == holds
    assert float(line["mag / adagrad"].split()[0]) == pytest.approx(factors["mag"], rel=0.1)
    few = sensitivity.report(rows, Settings(500, 30, p=(1e-4,)))
    assert few.tables[0].lines[0][-1] == "not decided"


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.1)], ids=repr)
def test_the_oracle_is_sgd_with_three_averages(loss):
    problem = ladder.between_two(0, 0.5, dimension=20)
    targets = np.sign(problem.targets) if isinstance(loss, Logistic) else problem.targets
    problem = replace(problem, targets=targets, loss=loss)
    order, step = problem.order(0, 301), 0.01
    path, x = [], np.zeros(20)
    for r in order:
        path.append(x)
        x = x - step * loss.derivative(problem.rows[r] @ x, targets[r]) * problem.rows[r]
    path, weights = np.array(path), np.arange(1.0, 302.0)
    expected = [path.mean(axis=0), weights @ path / weights.sum(), path[150:].mean(axis=0)]
    found = ladder.constant_step(loss, step, problem.rows, targets, order)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("loss", ladder.LOSSES)
@pytest.mark.parametrize("family", ladder.FAMILIES)
def test_no_point_is_better_than_the_minimiser_of_a_drawn_case(family, loss):
    """A wrong covariance, scale or minimiser gives points that are better than the best."""
    kinds = (ladder.draw(seed, 4000) for seed in range(500))
    case = next(case for case in kinds if (case.family, case.loss) == (family, loss))
    problem = case.problem()
    near = np.random.default_rng(0).standard_normal((200, case.dimension)) / case.scale
    points = np.concatenate([np.zeros((1, case.dimension)), near])
    gaps = problem.gap(points)
    assert gaps.min() > -1e-12 and gaps[0] > 0.0
    order = problem.order(1, case.samples)
    over = problem.over(order).gap(points[:2])
    rows, targets = problem.rows[order], problem.targets[order]
    means = [problem.loss.value(rows @ point, targets).mean() for point in points[:2]]
    np.testing.assert_allclose(np.subtract(*over), np.subtract(*means), rtol=1e-6)


@pytest.mark.parametrize(
    ("ratios", "paper", "memory", "fail"),
    [
        ((1.0, 1.05), 1.4, 0.25, []),
        ((1.5, 4.41), 1.6, 1.2, [0, 1, 3, 4, 5, 7, 10]),
        ((4.5, 25.0), 3.5, 0.27, [0, 1, 2, 5, 6, 7, 9, 10]),
        ((1.0, 1.0), 5.0, 0.25, [5, 6, 7, 8, 9]),
    ],
)
def test_claims_about_the_ladder(ratios, paper, memory, fail):
    """Suboptimalities that are known: a method's is its ratio times an oracle's of 1e-3."""
    others = dict.fromkeys(ladder.CONTENDERS, 8.0)
    rows = []
    for seed in range(20):
        ratio = ratios[seed % 2]
        about = {"study": "drawn", "seed": seed, "family": "ring", "case": f"case {seed}"}
        found = {ladder.ORACLE: 1.0, **others, "ladder": ratio, ladder.WITHOUT: ratio}
        found[ladder.MEMORY] = memory if ratio == ratios[0] or memory < 1.0 else 1.2 * ratio
        rows += [{**about, "method": n, "suboptimality": 1e-3 * v} for n, v in found.items()]
    found = {ladder.ORACLE: 1.0, ladder.EACH: 0.9, **others, ladder.TUNED: 2.0, "ladder": paper}
    beside = {"ladder": 2.0, ladder.MEMORY: 5.0 * memory, ladder.SHUFFLED: 1.0, ladder.FITTED: 1.0}
    for p, seed in ((p, seed) for p in (0.5, 0.01) for seed in range(3)):
        for study, methods in (("paper", found), ("memory", beside)):
            about = {"study": study, "p": p, "seed": seed}
            rows += [
                {**about, "method": n, "suboptimality": 1e-3 * v * (1 + 0.01 * seed)}
                for n, v in methods.items()
            ]
    for name, value in (("ladder", paper), (ladder.FITTED, 1.0)):
        about = {"study": "stationary", "stream": "regimes 0.3", "samples": 20, "method": name}
        for seed in range(3):
            rows.append({**about, "seed": seed, "suboptimality": 1e-3 * value * (1 + 0.01 * seed)})
    claims = ladder.report(rows, ladder.QUICK).claims
    assert [i for i, claim in enumerate(claims) if claim.holds is False] == fail
