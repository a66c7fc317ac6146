"""Each choice reaches the run, the streams have their laws, and verdicts can go either way."""

import sys

import networkx
import numpy as np
import pytest

import mixfree as mf
from mixfree.chains import random_walk
from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.paper.runs import run_cell
from mixfree.reproduce.sensitivity import experiment, problems
from mixfree.reproduce.sensitivity.choices import AS_SET, CHOICES, SHORT
from mixfree.reproduce.sensitivity.problems import CHAINS, Drift, Problem, chain_of, problem_of
from mixfree.reproduce.sensitivity.report import PAIRS

CELL = {"p": 0.01, "seed": 3, "samples": 1500}


def errors_of(name):
    cell = {**CELL, "choice": name}
    return {row["method"]: row["suboptimality"] for row in experiment.measure(cell)}


@pytest.fixture(scope="module")
def as_set():
    return errors_of(AS_SET)


def test_as_set_is_figure_1(as_set):
    """Catches another problem, stream, seed of the levels, start or scale."""
    for method, error in as_set.items():
        expected = run_cell({**CELL, "method": method}).suboptimality[-1]
        assert error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", [n for n in CHOICES if n not in (AS_SET, SHORT)])
def test_a_choice_changes_what_it_says(name, as_set):
    """Catches an option that is not passed on, and one that is passed to every method."""
    found, choice = errors_of(name), CHOICES[name]
    assert found.keys() == (choice.own.keys() or as_set.keys())
    assert (choice.beside is None) == (not choice.own)
    assert np.isfinite(list(found.values())).all() and min(found.values()) > 0.0
    changed = [method for method in found if found[method] != as_set[method]]
    only_where_long = {"radius: r = 100", "radius: r = 10"}  # the ball may not bind
    assert len(changed) == len(found) or (name in only_where_long and changed)


def test_published_runs_are_what_they_are_called():
    def part(name):
        opt = experiment.start("mag", CHOICES[name], np.zeros(2), 1.0, {"samples": 9000, "seed": 0})
        return opt, opt.gradient

    opt, law = part("levels: Algorithm 1 for MAG: whole law, α = D/√2")
    assert isinstance(opt, mf.Algorithm1) and law.max_steps == law.horizon
    assert law.horizon * law.expected_samples == pytest.approx(9000, rel=0.01)
    assert opt.step.alpha == pytest.approx(2**0.5)
    assert part("levels: whole law")[1].max_steps is None


def test_whole_states_are_means_over_their_rows():
    """Catches the transpose, one row for all, and the other state."""
    problem = problem_of(CHOICES["observed: the whole state, a fifth of the samples"], 1, 0.1, 60)
    assert isinstance(problem, Problem) and problem.whole
    compiled, reference = (mf.AdaGrad(np.zeros(100), domain=mf.Ball(1.0)) for _ in range(2))
    problem.feed([compiled])
    for state in problem.order // 250:
        rows = problem.data.rows[250 * state : 250 * state + 250]
        residuals = rows @ reference.x - problem.data.targets[250 * state : 250 * state + 250]
        reference.tell(np.mean(residuals[:, None] * rows, axis=0))
    np.testing.assert_allclose(compiled.average, reference.average, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stream", CHAINS)
def test_walks_stay_among_neighbours_and_show_their_own_rows(stream):
    """Catches rows of another state, and jumps."""
    states, per_state = CHAINS[stream]
    problem = problem_of(
        CHOICES[next(n for n in CHOICES if CHOICES[n].stream == stream)], 0, 0.1, 4000
    )
    assert len(problem.data.rows) == states * per_state
    path, chain = problem.order // per_state, chain_of(stream).P
    assert (np.asarray(chain)[path[:-1], path[1:]] > 0).all()
    assert len(set(problem.order % per_state)) == per_state


def test_the_walk_on_a_graph_needs_no_networkx(monkeypatch):
    """Catches an experiment that stops halfway where only the command line is installed."""
    walk = random_walk(networkx.barbell_graph(50, 0), "metropolis")
    monkeypatch.setitem(sys.modules, "networkx", None)
    chain_of.cache_clear()
    np.testing.assert_allclose(chain_of("graph").P, walk.P, rtol=0, atol=1e-15)


def test_the_drift_has_its_law_across_pieces(monkeypatch):
    """Catches a state that begins anew in each piece, which would cut its correlation."""
    monkeypatch.setattr(problems, "PIECE", 7)
    drift = Drift.draw(seed=2, p=0.1, samples=70_000)
    pieces = list(drift.pieces())
    rows, targets = (np.concatenate(each) for each in zip(*pieces, strict=True))
    assert len(rows) == 70_000
    states = (targets - rows @ drift.mean) / (rows @ drift.slope)
    clear = np.abs(rows @ drift.slope) > 1.0  # where the noise of y counts little
    both = clear[1:] & clear[:-1]
    # About 18 correlated samples count as 2 independent ones: standard error near 0.02.
    assert np.var(states[clear]) == pytest.approx(1.0, abs=0.08)
    assert np.mean(states[1:][both] * states[:-1][both]) == pytest.approx(0.8, abs=0.08)


def test_the_drift_knows_its_optimum():
    drift = Drift.draw(seed=2, p=0.1, samples=10)

    def objective(w):
        across, along = drift.rows @ (w - drift.mean), drift.rows @ drift.slope
        return 0.5 * np.mean(across**2 + along**2)

    points = np.random.default_rng(0).standard_normal((20, 100)) / 12
    gaps = [objective(w) - objective(drift.minimizer) for w in points]
    np.testing.assert_allclose(drift.suboptimality(points), gaps, rtol=1e-8)
    assert min(gaps) > 0 and np.linalg.norm(drift.minimizer) <= 1 + 1e-12


def made_up(factors, name=AS_SET):
    """Rows with these errors over a common one that varies from seed to seed."""
    common = np.random.default_rng(0).lognormal(size=30)
    noise = np.random.default_rng(1)
    return [
        {"choice": name, "p": 1e-4, "seed": 1000 + seed, "method": method,
         "suboptimality": factor * scale * noise.lognormal(sigma=0.05)}
        for seed, scale in enumerate(common)
        for method, factor in factors.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({}, ["holds", "holds", "holds"]),
        ({"mag": 1.5}, ["does not hold", "does not hold", "does not hold"]),  # worse than AdaGrad
        ({"sgd-mlmc": 5.0}, ["does not hold", "holds", "does not hold"]),  # worse than SGD
        ({"sgd-mlmc": 0.05}, ["does not hold", "does not hold", "holds"]),  # better than MAG
        ({"mag": 1.0}, ["not decided", "not decided", "not decided"]),
    ],
)
def test_verdicts(changed, verdicts):
    """Methods exchanged, or a verdict by one pair alone, would come out otherwise."""
    factors = {"sgd": 3.0, "adagrad": 1.0, "sgd-mlmc": 2.0, "mag": 0.1} | changed
    found = experiment.report(made_up(factors), experiment.FULL)
    (claim,) = found.claims
    line = dict(zip(found.tables[0].head, found.tables[0].lines[0], strict=True))
    for one, other in PAIRS:
        assert line[f"{one} / {other}"].value == pytest.approx(
            factors[one] / factors[other], rel=0.1
        )
    assert [claim.verdict, line["MAG is best"], line["MLMC is better"]] == verdicts
    assert line["seeds"] == 30


def test_methods_that_a_choice_leaves_alone_are_those_as_set():
    rows = made_up({"sgd": 3.0, "adagrad": 1.0, "sgd-mlmc": 2.0, "mag": 0.1})
    rows += made_up({"mag": 4.0, "sgd-mlmc": 1.0}, "levels: 3 levels")
    lines = experiment.report(rows, experiment.FULL).tables[0].lines
    assert lines[1][2].value == pytest.approx(4.0, rel=0.1)  # over AdaGrad as set


def test_pairs_are_those_of_the_same_streams():
    """Seeds that only one of two has would bring in streams of other difficulty."""
    rows = made_up({"sgd": 3.0, "adagrad": 1.0, "sgd-mlmc": 2.0, "mag": 0.1})
    few = made_up({"mag": 4.0, "sgd-mlmc": 1.0}, "levels: 3 levels")
    kept = [row for row in few if row["seed"] in (1003, 1010, 1011, 1020)]
    line = experiment.report(rows + kept, experiment.FULL).tables[0].lines[1]
    assert line[1] == 4 and line[2].value == pytest.approx(4.0, rel=0.1)


def test_small_runs_give_no_verdicts():
    factors = {"sgd": 3.0, "adagrad": 1.0, "sgd-mlmc": 2.0, "mag": 0.1}
    found = experiment.report(made_up(factors), Settings(500, 30, p=(1e-4,)))
    assert found.tables[0].lines[0][-1] == "not decided"
