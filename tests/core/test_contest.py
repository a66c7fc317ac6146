"""Runs side by side: what is chosen, when a run is given up, and what minimize makes of it."""

import numpy as np
import pytest

import mixfree as mf
from mixfree.core import contest as contests
from mixfree.core.contest import Candidate, Contest
from tests.helpers import assert_same_bits

DIMENSION = 2


def losses(points, judges):
    return [0.5 * ((point - judges.column(0)) ** 2).sum(axis=1) for point in points]


def contest(**settings):
    start = np.zeros(DIMENSION)
    return Contest("ladder", start, settings.pop("options", {}), losses=losses, **settings)


def tell(run, sample, each):
    for due in run.offer(sample):
        run.tell(run.x - each(due))


def learn(runs, samples, each=lambda sample: sample):
    for sample in samples:
        runs.see(sample)
        runs.teach(lambda run, sample=sample: tell(run, sample, each))
        runs.learnt()
    return runs


def blocks(count, length):
    """Samples that stay at one place for ``length`` in a row."""
    rng = np.random.default_rng(5)
    places = np.repeat(rng.standard_normal((count // length, DIMENSION)), length, axis=0)
    return 3.0 + places + 0.1 * rng.standard_normal(places.shape)


def test_memory_is_chosen_where_the_stream_mixes_slowly():
    """Caught: a choice by the loss of the newest samples."""
    samples = blocks(4096, 1024)
    chosen = learn(contest(), samples).choice
    assert chosen.chosen.memory > 0
    assert chosen.gain > chosen.error == 0.0  # all samples judge
    assert chosen.default == Candidate(0, False, 1.0, "weighted")
    assert "samples kept" in str(chosen)


def test_the_default_is_the_run_without_a_contest_to_the_bit():
    """Caught: samples that judge and are not learnt from."""
    samples = 3.0 + np.random.default_rng(6).standard_normal((3000, DIMENSION))
    found, alone = learn(contest(), samples), mf.Ladder(np.zeros(DIMENSION))
    for sample in samples:
        alone.tell(alone.x - sample)
    default = next(iter(found.runs.values()))
    assert default.outputs()["weighted"].tobytes() == alone.average.tobytes()


def candidates(found, gains):
    """Losses of which each candidate's are below the default's by a gain with noise."""
    noise = np.random.default_rng(7).standard_normal((len(gains), 64))
    return {name: 10.0 - gain + noise[i] for i, (name, gain) in enumerate(gains.items())}


def test_a_candidate_must_be_clearly_better_twice_in_succession():
    """Caught: the least mean whatever its error, a point that is good for a moment, a past gain."""
    found = contest(judges=64)
    learn(found, np.zeros((640, DIMENSION)))
    default, other, third = (
        name._replace(output=out)
        for name, out in zip([*found.runs][:3], ("weighted", "last", "tail"), strict=True)
    )
    gains = [
        {default: 0.0, other: 5.0, third: 0.0},
        {default: 0.0, other: 0.05, third: 2.0},
        {default: 0.0, other: 5.0, third: 1.0},
        {default: 0.0, other: 1.0, third: 1.5},
    ]
    chosen = []
    for each in gains:
        choice, found._clear = found._chosen(candidates(found, each))
        chosen.append(choice.chosen)
    assert chosen == [default, default, third, third]


def test_points_are_judged_as_they_are_when_asked_for():
    """Caught: a choice of the last fixed count, whose newest point has become bad since."""
    found = learn(contest(), blocks(1100, 550))
    run = [*found.runs][1]
    last, tail = (run._replace(output=output) for output in ("last", "tail"))
    found._clear = {last: 5.0, tail: 1.0}
    found._losses = lambda points, judges: [np.full(judges.filled, mean) for mean in (10, 12, 9)]
    assert (found.choice.chosen, found.choice.gain, found.choice.samples) == (tail, 1.0, 1100)


def test_asking_changes_nothing():
    """Caught: gains of the moment of a question in the place of those of a fixed count."""
    asked, silent, samples = contest(), contest(), blocks(1500, 250)
    for start in range(0, 1500, 70):
        learn(asked, samples[start : start + 70])
        assert np.isfinite(asked.average).all()
    learn(silent, samples)
    assert asked.choice.chosen.memory > 0
    assert (asked.choice, asked._clear) == (silent.choice, silent._clear)
    assert asked.average.tobytes() == silent.average.tobytes()
    assert asked.state_dict()["choice"] == silent.state_dict()["choice"]


def test_asking_changes_nothing_when_the_chosen_run_fails_later():
    """Caught: an answer that stays after the run that it was about was given up."""
    asked, silent = pair = [learn(contest(), blocks(1100, 550)) for _ in range(2)]
    for found in pair:
        run = [*found.runs][1]
        found._choice = contests.Choice(run, found._default, 5.0, 0.1, 1024, 1024, 9)
        found._clear = {run: 5.0}
        found._losses = lambda points, judges: [np.full(judges.filled, mean) for mean in (10, 12)]
    assert asked.choice.chosen == asked.choice.default
    for found in pair:
        found._give_up([*found.runs][1])
    assert asked.choice == silent.choice


def test_only_samples_that_do_not_judge_are_uncertain():
    """Caught: a standard error as if the stream had no end, where all of it judges."""
    part = learn(contest(judges=512), blocks(2048, 1024)).choice
    assert part.judges == 512
    assert part.samples == 2048
    assert part.gain > part.error > 0.0


def test_too_few_to_judge():
    """Caught: a choice by the fit to fewer than ten samples per coordinate."""
    assert learn(contest(), blocks(31, 31)).choice.judges == 0
    wide = Contest("ladder", np.zeros(100), {}, losses=lambda points, judges: 1 / 0)
    learn(wide, np.zeros((999, 100)))
    assert wide.choice.chosen == wide.choice.default


def test_a_run_that_diverged_is_not_chosen():
    """Caught: NaN, which is neither above nor below anything."""

    def diverged(points, judges):
        found = losses(points, judges)
        return [found[0], *(np.full(judges.filled, np.nan) for _ in points[1:])]

    found = Contest("ladder", np.zeros(DIMENSION), {}, losses=diverged)
    learn(found, blocks(1024, 512))
    assert found.choice.chosen == found.choice.default


def test_a_run_that_ends_in_an_error_is_given_up():
    """Caught: a whole fit that fails since a candidate did; a default that is left out."""
    found, names = contest(), list(contest().runs)

    def learn_or_fail(run):
        if run is found.runs.get(failing):
            raise ValueError("no minimum")

    failing = names[1]
    found.teach(learn_or_fail)
    assert list(found.runs) == [names[0], names[2]]
    failing = names[0]
    with pytest.raises(ValueError, match="no minimum"):
        found.teach(learn_or_fail)


def test_what_is_given_is_not_tried_otherwise():
    given = contest(output="last", options={"per_coordinate": False}, values=64)
    assert [str(run) for run in given.runs] == [
        "nothing kept, one rate, last point",
        "up to 65,536 samples kept, one rate, steps 4 times as long, last point",
    ]
    assert {run.length for run in contest(options={"length": 2.0}).runs} == {2.0}
    assert contest(values=10**7).runs.keys() != contest().runs.keys()  # fewer are kept
    assert len(Contest("mag", np.zeros(DIMENSION), {}, losses=losses).runs) == 2


def test_lost_runs_are_given_up_at_fixed_counts(monkeypatch):
    """Caught: a cut wherever a chunk ends, or of the default."""
    monkeypatch.setattr(contests, "CUT", 1024)
    samples = blocks(2560, 256)
    one, other = contest(), contest()
    learn(one, samples[:1023])
    assert len(one.runs) == 3
    learn(one, samples[1023:1030])
    assert [bool(run.memory) for run in one.runs] == [False, True]
    learn(other, samples[:1030])
    assert one.runs.keys() == other.runs.keys()
    resumed = contest()
    resumed.load_state_dict(one.state_dict())
    for each in (other, resumed):
        learn(each, samples[1030:])
    assert_same_bits(dict(enumerate_runs(other)), dict(enumerate_runs(resumed)))
    assert other.choice == resumed.choice
    assert other.choice.chosen.memory > 0


def enumerate_runs(found):
    for name, run in found.runs.items():
        yield str(name), run.state_dict()


def test_a_state_of_other_runs_is_refused():
    state = contest().state_dict()
    with pytest.raises(ValueError, match="other runs"):
        contest(options={"per_coordinate": True}).load_state_dict(state)
    with pytest.raises(ValueError, match="chosen a run that it has not"):
        contest().load_state_dict(
            state | {"choice": state["choice"] | {"chosen": [7, False, 1.0, "tail"]}}
        )
    with pytest.raises(ValueError, match="judged runs that it has not"):
        contest().load_state_dict(state | {"clear": [[[7, False, 1.0, "tail"], 1.0]]})


def test_huge_losses_are_compared():
    """Caught: squares that overflow, whose mean error hides that the default has diverged."""
    one, other = np.array([1e250, 3e250, 2e250]), np.ones(3)
    gain, error = contests._difference(one, other)
    np.testing.assert_allclose((gain, error), (2e250, 1e250 / 3**0.5))


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
