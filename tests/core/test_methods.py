"""The table: what a method is made of, and what it says to wrong arguments."""

import inspect

import numpy as np
import pytest

import mixfree as mf
from mixfree import gradients, steps
from mixfree.core.methods import find_method
from mixfree.core.optimizer import Optimizer
from mixfree.linear.advance import advance_linear
from mixfree.linear.losses import Squared

PARTS = {
    "sgd": ("Plain", "InverseSqrt"),
    "adagrad": ("Plain", "AdaGradNorm"),
    "sgd-mlmc": ("MLMC", "InverseSqrt"),
    "mag": ("MLMC", "AdaGradNorm"),
    "algorithm-1": ("MLMC", "AdaGradNorm"),
    "ladder": ("Plain", "Ladder"),
    "minibatch": ("MiniBatch", "InverseSqrt"),
    "emd": ("Plain", "InverseSqrt"),
    "sgd-dd": ("DataDrop", "InverseSqrt"),
    "sgd-er": ("ForwardReplay", "Constant"),
    "sgd-rer": ("ReverseReplay", "Constant"),
}
NEED_THE_MIXING_TIME = ("emd", "sgd-dd", "sgd-er", "sgd-rer")


def test_the_table_of_methods():
    table = mf.methods()
    assert {name: method.parts() for name, method in table.items()} == PARTS
    assert {n for n, each in table.items() if each.needs_mixing_time()} == {*NEED_THE_MIXING_TIME}
    assert [line.split()[0] for line in str(table).splitlines()[1:]] == [*table]


@pytest.mark.parametrize("name", NEED_THE_MIXING_TIME)
def test_methods_that_need_the_mixing_time_say_so(name):
    with pytest.raises(TypeError, match="'mixing_time'"):
        find_method(name)([0.0])
    with pytest.raises(TypeError, match=f"{name} needs to know the mixing time"):
        mf.minimize(lambda x, z: x - z, np.zeros(3), [0.0], method=name)
    with pytest.raises(ValueError, match="mixing_time must be a whole number"):
        find_method(name)([0.0], mixing_time=0)


def test_default_scale_is_the_theorems():
    assert mf.MAG([0.0]).step.alpha == 1.0
    assert mf.MAG([0.0], domain=mf.Ball(3.0)).step.alpha == pytest.approx(6 / np.sqrt(2))
    assert mf.MAG([0.0, 0.0], domain=mf.Box(0, 1)).step.alpha == pytest.approx(1.0)
    assert mf.MAG([0.0], domain=mf.Box(0, np.inf)).step.alpha == 1.0
    assert mf.MAG([0.0], domain=mf.Ball(3.0), alpha=0.1).step.alpha == 0.1
    assert mf.SGD([1.0], domain=mf.Box(1.0, 1.0)).step.alpha == 1.0
    assert mf.MAG([0.0], domain=mf.Ball(1e308)).step.alpha == 1.0


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        *((mf.MAG, {"alpha": alpha}, "alpha must be") for alpha in (0, -1.0, np.nan, np.inf, "x")),
        (mf.Ladder, {"length": 0.0}, "length must be"),
        (mf.MAG, {"output": "best"}, "output must be one of 'average'"),
        (mf.MAG, {"mirror": "flat"}, "mirror must be one of"),
        (mf.MAG, {"level": 3}, r"`level`.*levels, weights, horizon|'level'"),
        (mf.MiniBatch, {"batch": 0}, "batch"),
        (mf.SGD, {"seed": "a"}, "seed must be"),
        (mf.SGD, {"levels": 3}, "sgd does not take `levels`: it has no options|'levels'"),
        (mf.SGD, {"domain": "ball"}, r"domain must be one such as mixfree.Ball\(1.0\)"),
    ],
)
def test_unknown_options_and_words(method, options, message):
    error = TypeError if {"level", "levels"} & options.keys() else ValueError
    with pytest.raises(error, match=message):
        method([0.0], **options)
    with pytest.raises(error, match=message.partition("|")[0]):
        mf.minimize(lambda x, z: x - z, np.zeros(3), [0.0], method, **options)


def test_signatures_show_every_argument():
    """Catches a help text of ``**common``, and a required option with a default."""
    shown = inspect.signature(mf.SGDDD).parameters
    assert [*shown] == ["x0", "mixing_time", "domain", "alpha", "output", "mirror", "seed"]
    assert shown["mixing_time"].default is inspect.Parameter.empty and shown["seed"].default == 0


def test_emd_steps():
    """α/√(τt) without a horizon, the constant α/√(τT) with one."""
    for options, second in (({}, -1.0 - 0.5**0.5), ({"horizon": 4}, -0.5 - 0.5)):
        opt = mf.EMD([0.0], mixing_time=4, alpha=2.0, **options)
        opt.tell([1.0])
        opt.tell([1.0])
        assert opt.x[0] == pytest.approx(second)


def test_emd_uses_the_domains_mirror_map():
    start = np.full(3, 1 / 3)
    assert mf.EMD(start, domain=mf.Simplex(), mixing_time=2).mirror.name == "entropic"
    assert mf.EMD(start, domain=mf.Ball(1.0), mixing_time=2).mirror.name == "euclidean"
    assert mf.MAG(start, domain=mf.Simplex()).mirror.name == "euclidean"
    assert mf.MAG(start, domain=mf.Simplex(), mirror="entropic").mirror.name == "entropic"
    with pytest.raises(ValueError, match="needs a Simplex"):
        mf.MAG(start, mirror="entropic")
    with pytest.raises(ValueError, match="positive in every entry"):
        mf.EMD([1.0, 0.0], domain=mf.Simplex(), mixing_time=2)


def test_data_drop_steps_on_every_kth_sample():
    opt = mf.SGDDD([0.0], mixing_time=5, alpha=1.0)
    assert [i for i in range(1, 21) if opt.tell([float(i)])] == [5, 10, 15, 20]
    assert opt.x[0] == pytest.approx(-sum(5.0 * t / np.sqrt(t) for t in range(1, 5)))


def replayed(opt, samples):
    seen = []
    for sample in samples:
        for due in opt.offer(sample):
            seen.append(due)
            opt.tell(np.array([0.1 * due]))
    return seen


def test_reverse_replay_goes_from_newest_to_oldest_and_leaves_the_gap():
    opt = mf.SGDRER([0.0], mixing_time=2, buffer=4, gap=2)
    assert replayed(opt, range(15)) == [5, 4, 3, 2, 11, 10, 9, 8]
    assert (opt.samples, opt.steps, opt.pending) == (15, 8, 3)


@pytest.mark.parametrize("name", ["sgd-er", "sgd-rer"])
def test_replay_is_of_each_block_without_the_gap_at_its_start(name):
    """By hand and compiled: a gradient in the gap is 1 and one outside it 0."""
    made_by = find_method(name)
    opt = made_by([0.0], mixing_time=2, buffer=6, gap=4, seed=9)
    seen = np.array(replayed(opt, range(200)))
    assert set(seen % 10) == set(range(4, 10))
    assert (seen // 10 == np.arange(20).repeat(6)).all()
    drawn = (seen % 10).reshape(20, 6)  # forward: anew for every block, with replacement
    assert (len(set(map(tuple, drawn))) > 1) == (len(set(drawn[0])) < 6) == (name == "sgd-er")
    compiled = made_by([0.0], mixing_time=2, buffer=6, gap=4, seed=9)
    rows, targets = np.ones((200, 1)), np.where(np.arange(200) % 10 < 4, -1.0, 0.0)
    advance_linear(compiled, Squared(), rows, targets)
    assert compiled.samples == 200 and compiled.x == 0.0


def test_replay_averages_the_ends_of_blocks():
    opt = mf.SGDRER([0.0], mixing_time=1, buffer=3, gap=0, output="average")
    ends = []
    for sample in range(1, 13):
        for due in opt.offer(sample):
            opt.tell(np.array([float(due)]))
        if sample % 3 == 0:
            ends.append(opt.x[0])
    np.testing.assert_allclose(opt.average, np.mean(ends))


def test_replay_needs_its_samples():
    opt = mf.SGDER([0.0], mixing_time=1, buffer=2)
    with pytest.raises(RuntimeError, match="replays samples: use"):
        opt.tell([1.0])
    next(opt.offer(1), None)
    due = opt.offer(2)
    next(due)
    with pytest.raises(RuntimeError, match="was not told"):
        next(due)
    with pytest.raises(RuntimeError, match="not finished"):
        opt.offer(3)


def test_modules_are_imported_when_used():
    assert mf.chains.two_state(0.01).mixing_time() == 35
    assert {"chains", "sklearn", "torch", "MAG"} <= set(dir(mf))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mf.nothing


@pytest.mark.parametrize("length", [2.0, 0, True])
def test_a_window_whose_length_is_no_integer_is_refused_when_it_opens(length):
    """Not when the run is saved; and the run stays as it was."""

    class Odd(gradients.Window):
        def length(self, steps, samples):
            return length if steps else np.int64(2)

    opt = Optimizer([0.0], Odd(), steps.AdaGradNorm(1.0))
    assert [opt.tell([1.0]), opt.tell([1.0])] == [False, True]
    with pytest.raises(ValueError, match="length of Odd must be a whole number of at least 1"):
        opt.tell([1.0])
    assert (opt.samples, opt.steps, type(opt.state_dict()["gradient"]["length"])) == (2, 1, int)


def test_a_method_without_the_common_keywords_is_refused_when_it_is_written():
    """Catches an error about ``domain`` alone, and only when an estimator passes it."""
    with pytest.raises(TypeError, match=r"must take domain, alpha, output, mirror, seed as keyw"):

        class Narrow(mf.Method):
            def __init__(self, x0, domain=None):
                super().__init__(x0, gradients.Plain(), steps.InverseSqrt, domain=domain)
