"""The suite's oracle and problems against straightforward computations."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.linear.losses import Huber, Logistic, loss_twin
from mixfree.reproduce import experiment
from mixfree.reproduce.ladder.contenders import CONTENDERS, gap_of
from mixfree.reproduce.ladder.experiment import cells, measure
from mixfree.reproduce.ladder.hindsight_kernel import constant_step
from mixfree.reproduce.ladder.report import STEPS, TUNED
from mixfree.reproduce.ladder.suite import CASES, LONGEST, between_two, reversed_streak_td


@pytest.mark.parametrize("name", ["logistic p=0.5", "huber p=0.5", "TD, reversed streak"])
def test_the_oracle_is_sgd_with_three_averages(name):
    problem = CASES[name](0)
    order, step = problem.order(0, 301), 0.01
    path, x = [], np.zeros(problem.rows.shape[1])
    for r in order:
        path.append(x)
        slope = problem.loss.derivative(problem.seen[r] @ x, problem.targets[r])
        x = x - step * slope * problem.rows[r]
    path = np.array(path)
    weights = np.arange(1.0, 302.0)
    expected = [path.mean(axis=0), weights @ path / weights.sum(), path[150:].mean(axis=0)]
    found = constant_step(
        loss_twin(problem.loss), step, problem.rows, problem.seen, problem.targets, order
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)


def test_a_step_that_diverges_is_infinitely_bad():
    problem = between_two(0, p=0.5)
    found = constant_step(
        loss_twin(problem.loss), 9.0, problem.rows, problem.seen, problem.targets, np.arange(400)
    )
    assert np.isinf(found).all()


@pytest.mark.parametrize("loss", [None, Logistic(), Huber(0.1)], ids=repr)
def test_no_point_is_better_than_the_minimiser(loss):
    problem = between_two(3, p=0.1, loss=loss)
    points = np.random.default_rng(0).standard_normal((50, 20))
    gaps = problem.gap(points)
    assert (gaps > 0).all()
    opt = mf.Ladder(np.zeros(20))
    problem.advance(opt, problem.order(3, 200_000))
    assert 0 < problem.gap(opt.average[None])[0] < 1e-2 * gaps.min()


def test_a_stream_that_is_not_long_enough_is_refused():
    """And is not taken for a run that diverged."""
    problem = CASES["AR(1) 0.9"](0)
    assert len(problem.order(0, LONGEST)) == len(problem.rows)
    with pytest.raises(ValueError, match="at most 1000000, not 1000001"):
        problem.order(0, LONGEST + 1)
    with pytest.raises(ValueError, match="order must hold row numbers"):
        gap_of(problem, np.array([LONGEST]), mf.AdaGrad(np.zeros(10)))
    with pytest.raises(ValueError, match="samples must be"):
        cells(experiment("ladder").FULL.changed(samples=2_000_000))


def test_a_run_far_away_is_infinitely_bad():
    """Its square overflows, which is no cause for a warning."""
    for name in ("regression p=0.5", "AR(1) 0.9", "TD, reversed streak"):
        problem = CASES[name](0)
        far = np.full((1, problem.rows.shape[1]), 1e200)
        assert problem.gap(far)[0] == np.inf, name


def test_td_in_the_suite_is_td():
    problem, gamma = reversed_streak_td(0), 0.9
    order = problem.order(0, 2000)
    opt, learner = mf.AdaGrad(np.zeros(20)), mf.AdaGrad(np.zeros(20))
    problem.advance(opt, order)
    for pair in order:
        state, following = divmod(pair, 20)
        error = learner.x[state] - problem.targets[pair] - gamma * learner.x[following]
        learner.tell(error * np.eye(20)[state])
    np.testing.assert_allclose(opt.x, learner.x, rtol=1e-10)


def test_the_report_of_a_few_cells():
    study = experiment("ladder")
    chosen = [
        {"study": "suite", "case": "cycle p=0.1", "samples": 2000, "seed": 0},
        {"study": "paper", "case": "regression p=0.5", "samples": 2000, "seed": 0},
        {"study": "profile", "case": "regression p=0.01", "samples": 20_000, "seed": 0},
    ]
    rows = [row for cell in chosen for row in measure(cell)]
    report = study.report(rows, study.QUICK)
    text = report.markdown()
    assert "geometric mean" in text and "cycle p=0.1" in text
    assert list(report.figures) == ["ladder", "profile"]
    oracle = {r["method"]: r["suboptimality"] for r in rows if r["study"] == "paper"}
    assert oracle["oracle"] <= 1.01 * oracle["adagrad"]
    assert oracle["oracle"] <= min(oracle[name] for name in STEPS) <= 1.5 * oracle["oracle"]
    lines = report.figures["profile"].axes[0].lines
    opt, problem = mf.Ladder(np.zeros(100)), CASES["regression p=0.01"](0)
    problem.advance(opt, problem.order(0, 20_000))
    lengths, ratios, blocks = opt.profile()
    np.testing.assert_array_equal(lines[0].get_xdata(), lengths[blocks >= 16])
    np.testing.assert_array_equal(lines[0].get_ydata(), ratios[blocks >= 16])
    assert lines[1].get_xdata()[0] == 50.0


def made_up(ladder, paper):
    """Suboptimalities that are known: a method's is its ratio times an oracle's of 1e-3."""
    others = dict.fromkeys(CONTENDERS, 8.0)
    places = [("suite", "cycle p=0.1", 10_000, {**others, "ladder": r}) for r in ladder[:1]]
    places += [("suite", "AR(1) 0.9", 10_000, {**others, "ladder": r}) for r in ladder[1:]]
    found = {**others, **dict.fromkeys(STEPS, 9.0), TUNED: 2.0, "ladder": paper}
    places += [("paper", case, 50_000, found) for case in ("regression p=0.5", "regression p=0.01")]
    return [
        {"study": study, "case": case, "samples": n, "seed": seed, "method": method}
        | {"suboptimality": (0.5 + seed) * 1e-3 * ratio}
        for study, case, n, ratios in places
        for seed in (0, 1)
        for method, ratio in {"oracle": 1.0, **ratios}.items()
    ]


@pytest.mark.parametrize(
    ("ladder", "paper", "mean", "holds"),
    [
        ((1.0, 1.44), 1.4, "1.20", [True, True, True, True, True]),
        ((1.0, 4.41), 1.6, "2.10", [False, False, False, True, True]),
        ((1.0, 1.44), 3.5, "1.20", [True, True, False, True, False]),
        ((1.0, 1.44), 5.0, "1.20", [True, True, False, False, False]),
    ],
)
def test_claims_about_the_ladder(ladder, paper, mean, holds):
    """Geometric mean and worst of the suite; the paper's problem beside oracle, MAG, AdaGrad."""
    study = experiment("ladder")
    report = study.report(made_up(ladder, paper), study.QUICK)
    assert report.claims[0].measured == mean
    assert "AR(1) 0.9, 10,000 samples" in report.claims[1].measured
    assert [claim.holds for claim in report.claims] == holds


def test_one_step_for_all_seeds_is_chosen_by_its_mean():
    """Not the best of each seed, which is the oracle's."""
    rows = made_up((1.0,), 1.0)
    lucky = dict(zip(STEPS, [(0.1, 9.0), (9.0, 0.1), (2.0, 4.0)], strict=False))
    for row in rows:
        if row["method"] in lucky:
            row["suboptimality"] = lucky[row["method"]][row["seed"]]
        elif row["method"] in STEPS:
            row["suboptimality"] = 7.0
    *_, table = experiment("ladder").report(rows, experiment("ladder").QUICK).tables
    assert table.head == ["", "p=0.5", "p=0.01"]
    assert ("best step for all seeds", "3.00e+00", "3.00e+00") in table.lines
