"""Runs side by side: what is chosen, when a run is given up, and what minimize makes of it."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.core import contest as contests
from mixfree.core.contest import Candidate, Contest
from tests.helpers import assert_same_bits

DIMENSION = 2


def losses(point, held):
    return 0.5 * ((point - held.column(0)) ** 2).sum(axis=1)


def contest(**settings):
    start = np.zeros(DIMENSION)
    return Contest("ladder", start, settings.pop("options", {}), losses=losses, **settings)


def tell(run, sample, each):
    for due in run.offer(sample):
        run.tell(run.x - each(due))


def learn(runs, samples, each=lambda sample: sample):
    for sample in samples:
        if not runs.takes(sample):
            runs.teach(lambda run, sample=sample: tell(run, sample, each))
        runs.learnt()
    return runs


def blocks(count, length):
    """Samples that stay at one place for ``length`` in a row."""
    rng = np.random.default_rng(5)
    places = np.repeat(rng.standard_normal((count // length, DIMENSION)), length, axis=0)
    return 3.0 + places + 0.1 * rng.standard_normal(places.shape)


def test_memory_is_chosen_where_the_stream_mixes_slowly():
    """Caught: a choice by the loss of what was learnt from, or of the newest samples."""
    samples = blocks(4000, 1000)
    chosen = learn(contest(), samples).judge()
    assert chosen.chosen.memory == contests.MEMORY
    assert chosen.gain > 2.0 * chosen.error > 0.0
    assert chosen.default == Candidate(0, False, "weighted")
    assert f"{contests.MEMORY:,} samples kept" in str(chosen)


def test_the_default_stays_where_nothing_can_be_told_apart():
    """Caught: the candidate with the least mean, whatever its standard error."""
    samples = 3.0 + np.random.default_rng(6).standard_normal((3000, DIMENSION))
    found = learn(contest(), samples)
    choice = found.judge()
    assert choice.chosen == choice.default
    assert choice.candidates == 12
    assert np.array_equal(found.average, next(iter(found.runs.values())).outputs()["weighted"])
    assert "no other of 12 is clearly better" in str(choice)


def test_too_few_to_judge():
    found = learn(contest(), blocks(100, 50))
    assert found.judge().chosen == found.judge().default


def test_a_run_that_diverged_is_not_chosen():
    """Caught: NaN, which is neither above nor below anything."""

    def diverged(point, held):
        return np.where(point[0] == 0.0, np.nan, losses(point, held))

    found = Contest("ladder", np.zeros(DIMENSION), {}, losses=diverged)
    learn(found, blocks(1000, 500), lambda sample: sample * [0.0, 1.0])
    assert found.judge().chosen == found.judge().default


def test_a_run_that_ends_in_an_error_is_given_up():
    """Caught: a whole fit that fails since a candidate did; a default that is left out."""
    found, names = contest(), list(contest().runs)

    def learn_or_fail(run):
        if run is found.runs.get(failing):
            raise ValueError("no minimum")

    failing = names[2]
    found.teach(learn_or_fail)
    assert list(found.runs) == [names[0], names[1], names[3]]
    failing = names[0]
    with pytest.raises(ValueError, match="no minimum"):
        found.teach(learn_or_fail)


def test_what_is_given_is_not_tried_otherwise():
    given = contest(output="last", options={"per_coordinate": False})
    assert [str(run) for run in given.runs] == [
        "nothing kept, the method's own rates, last point",
        "4,096 samples kept, the method's own rates, last point",
    ]
    assert contest(values=10**7).runs.keys() != contest().runs.keys()  # fewer are kept


def test_lost_runs_are_given_up_at_fixed_counts(monkeypatch):
    """Caught: a cut wherever a chunk ends."""
    monkeypatch.setattr(contests, "CUT", 1024)
    monkeypatch.setattr(contests, "FAR", 0.1)
    samples = 3.0 + np.random.default_rng(7).standard_normal((2500, DIMENSION))
    one, other = contest(), contest()
    learn(one, samples[:1023])
    assert len(one.runs) == 4
    learn(one, samples[1023:1030])
    assert len(one.runs) < 4
    assert {bool(run.memory) for run in one.runs} == {False, True}
    learn(other, samples[:1030])
    assert one.runs.keys() == other.runs.keys()
    resumed = contest()
    resumed.load_state_dict(one.state_dict())
    for each in (other, resumed):
        learn(each, samples[1030:])
    assert_same_bits(dict(enumerate_runs(other)), dict(enumerate_runs(resumed)))
    assert other.judge() == resumed.judge()


def enumerate_runs(found):
    for name, run in found.runs.items():
        yield str(name), run.state_dict()


def test_a_state_of_other_runs_is_refused():
    state = contest().state_dict()
    with pytest.raises(ValueError, match="other runs"):
        contest(options={"per_coordinate": True}).load_state_dict(state)


def test_minimize_says_what_it_needs():
    samples = blocks(2000, 500)
    settings = {"method": "ladder", "x0": np.zeros(DIMENSION)}
    loss = lambda x, z: 0.5 * ((x - z) ** 2).sum()  # noqa: E731
    grad = lambda x, z: x - z  # noqa: E731
    with pytest.raises(ValueError, match="give `loss`"):
        mf.minimize(grad, samples, memory="auto", **settings)
    with pytest.raises(ValueError, match="memory must be a whole number"):
        mf.minimize(grad, samples, memory="many", **settings)
    assert mf.minimize(grad, samples, **settings).choice is None
    assert mf.minimize(grad, samples, memory=0, loss=loss, **settings).choice is None
    found = mf.minimize(grad, samples, loss=loss, **settings)
    assert found.choice.chosen.memory > 0
    assert found.samples == 2000
    assert found.history.samples[-1] == 2000
    best = samples.mean(axis=0)
    without = mf.minimize(grad, samples, memory=0, **settings)
    assert np.abs(found.average - best).max() < 0.5 * np.abs(without.average - best).max()
