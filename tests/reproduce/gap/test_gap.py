"""The experiment on the optimality gap: a short version, and verdicts from made-up rows."""

import numpy as np
import pytest

from mixfree.reproduce.engine.settings import Settings
from mixfree.reproduce.gap import experiment


@pytest.mark.parametrize("loss", experiment.LOSSES)
def test_the_bound_holds_and_is_no_larger_than_it_need_be(loss):
    """A bound of another unit, or without the spread of the kept rows, is far off for a loss."""
    rows = experiment.measure({"loss": loss, "rows": 4000, "seeds": list(range(500, 512))})
    lost, estimate, upper = (
        np.array([row[k] for row in rows]) for k in ("lost", "estimate", "upper")
    )
    # Of 12 runs with 95 % each, 8 or fewer hold with probability 0.003.
    assert sum(row["held"] for row in rows) >= 9
    assert (lost > -1e-9).all() and (estimate < upper).all() and (upper < 8.0 * estimate).all()
    assert 0.4 < lost.sum() / estimate.sum() < 2.5


def test_sorted_streams_are_sorted_and_others_are_not():
    for order in experiment.ORDERS:
        _, y = experiment.stream("huber", order, 500, 3)
        assert (np.diff(y) >= 0.0).all() == order.startswith("sorted")


@pytest.mark.parametrize("held, verdict", [(0.95, "holds"), (0.90, "does not hold")])
def test_the_verdict_is_of_the_worst_loss(held, verdict):
    settings = Settings(samples=4000, seeds=300)
    rows = [
        {
            "loss": loss,
            "order": experiment.ORDERS[seed % 3],
            "lost": 1.0,
            "estimate": 1.0,
            "upper": 2.0,
            "held": float(loss != "softmax" or seed < held * 300),
        }
        for loss in experiment.LOSSES
        for seed in range(300)
    ]
    found = experiment.report(rows, settings)
    assert found.claims[0].verdict == verdict
    assert "(softmax)" in found.claims[0].measured


def test_cells_have_every_seed_of_every_loss_once():
    settings = experiment.FULL.changed(seeds=25)
    met = [(c["loss"], seed) for c in experiment.cells(settings) for seed in c["seeds"]]
    assert len(met) == len(set(met)) == len(experiment.LOSSES) * 25
    assert {seed for _, seed in met} == set(range(1000, 1025))
