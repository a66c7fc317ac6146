"""The coins' law and losses, and exponents recovered from made-up errors."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.chains import MarkovChain
from mixfree.reproduce import lower_bound as experiment
from mixfree.reproduce.lower_bound import BIASES, METHODS, STAYS, Coins
from mixfree.reproduce.paper.problem import horizon_for


@pytest.mark.parametrize(("delta", "stay"), [(0.2, 10.0), (0.9, 3.0), (0.01, 40.0), (0.5, 1.0)])
def test_the_mixing_time_is_the_chains(delta, stay):
    keep, heads = 1.0 - 1.0 / stay, 0.5 * (1.0 + delta)
    anew = np.array([[heads, 1.0 - heads]] * 2) / stay
    assert Coins(delta, stay).mixing_time == MarkovChain(keep * np.eye(2) + anew).mixing_time()


def test_the_stream_keeps_its_coins():
    """Catches a coin that is thrown at every sample, and one that changes at every throw."""
    path = Coins(delta=0.4, stay=8.0).stream(400_000, seed=1)
    changes = np.mean(path[1:] != path[:-1])
    assert changes == pytest.approx(2 * 0.7 * 0.3 / 8.0, rel=0.03)
    assert np.mean(path) == pytest.approx(0.3, abs=5 * (0.21 * 15 / 400_000) ** 0.5)


def test_gradients_are_the_coins():
    """Catches a target so near that the loss is round within |w| ≤ 1, and the wrong sign."""
    coins = Coins(delta=0.3, stay=5.0)
    stream = coins.stream(3000, seed=2)
    opt = mf.SGD([0.0], domain=mf.Ball(1.0), alpha=1.0)
    coins.feed(opt, stream)
    w, total = 0.0, 0.0
    for t, coin in enumerate(stream, start=1):
        total += w
        w = np.clip(w + (1.0 if coin == 0 else -1.0) / np.sqrt(t), -1.0, 1.0)
    assert opt.average[0] == pytest.approx(total / 3000, rel=1e-12)
    assert coins.suboptimality(1.0) == 0.0 and coins.suboptimality(-1.0) == 0.6


def test_a_row_is_that_of_its_method():
    """Catches SGD in place of Algorithm 1, and methods that are not given the mixing time."""
    rows = experiment.measure({"stay": 8, "samples": 2000, "seed": 1})
    coins = Coins(BIASES[2], 8)
    options = {
        "algorithm-1": {"horizon": horizon_for(2000)},
        **{key: {"mixing_time": coins.mixing_time, "alpha": 1.0} for key in ("emd", "sgd-dd")},
    }
    for name in METHODS:
        given = options.get(name, {"alpha": 1.0})
        opt = mf.methods()[name]([0.0], domain=mf.Ball(1.0), seed=1, **given)
        coins.feed(opt, coins.stream(2000, seed=1))
        (row,) = (r for r in rows if (r["method"], r["delta"]) == (name, coins.delta))
        assert row["suboptimality"] == coins.suboptimality(opt.average[0])


def made_up(exponents):
    """Errors that are worst at another bias for each stay, with noise of the seeds.

    All others are smaller, the more so for longer stays.
    """
    settings = experiment.FULL
    return [
        {**cell, "delta": delta, "method": name, "suboptimality": peak * size * noise}
        for cell in experiment.cells(settings)
        for noise in [np.random.default_rng(cell["seed"]).lognormal(sigma=0.1)]
        for name, exponent in exponents.items()
        for size in [Coins(1 / 16, cell["stay"]).mixing_time ** exponent / cell["samples"] ** 0.5]
        for place in [STAYS.index(cell["stay"])]
        for at, delta in enumerate(BIASES)
        for peak in [1.0 if at == place else 0.1 ** (place + 1)]
    ]


@pytest.mark.parametrize(
    ("exponents", "holds"),
    [
        ((1.0, 0.7, 0.5, 0.5, 0.5), [True] * 5),
        ((0.5, 0.7, 1.0, 0.0, 0.5), [False] * 3 + [True, False]),
    ],
    ids=["as they are", "one that does not adapt"],
)
def test_exponents_are_those_of_the_worst_bias(exponents, holds):
    """A fit at one bias, or over the mean of all, would not find them.

    Found out are SGD for Algorithm 1, EMD for SGD, and for EMD one with the same error always.
    """
    truth = dict(zip(("sgd", "mag", "algorithm-1", "emd", "sgd-dd"), exponents, strict=True))
    assert truth.keys() == METHODS.keys()
    found = experiment.report(made_up(truth), experiment.FULL)
    assert [claim.holds for claim in found.claims] == holds
    lines = {line[0]: line for line in found.tables[1].lines}
    for name, exponent in truth.items():
        assert lines[name][1].startswith(f"{exponent:+.2f}")
        assert lines[name][3].startswith("-0.50")
