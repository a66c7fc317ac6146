"""An exact fit is a function of the set of rows: no order of rows, files or merges changes it."""

import numpy as np
import pyarrow
import pytest

from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.report.facts import Facts
from tests.streams.data import write

HOUR = np.timedelta64(1, "h")


def table(seed, loss="squared", rows=6000):
    """A table sorted by unit, with dates, gaps, constants, row numbers, names and rare texts."""
    rng = np.random.default_rng(seed)
    unit = np.sort(rng.integers(0, 30, rows))
    when = np.datetime64("2019-01-01T00:30") + rng.permutation(rows) * 3 * HOUR
    x = np.cumsum(rng.normal(size=rows)) / 10.0
    gap, late = rng.random(rows) < 0.1, np.arange(rows) > 0.7 * rows
    hour = (when - when.astype("M8[D]")) // HOUR
    days = (when - when.min()) / np.timedelta64(1, "D")
    y = np.where(gap, 0.0, x) + 3.0 * (hour == 9) + days / 300.0 + unit % 7 + late * 2.0
    load = y + rng.normal(size=rows)
    if loss != "squared":
        load = load > 9.0 if loss == "logistic" else rng.poisson(np.exp(load / 8.0))
    late_text = np.where(late, np.where(rng.random(rows) < 0.5, "a", "b"), None)
    kind = np.where(np.arange(rows) % 997 == 5, [f"rare {i}" for i in range(rows)], "usual")
    return pyarrow.table(
        {
            "No": np.arange(1, rows + 1),
            "when": np.datetime_as_string(when, "s"),
            "unit": [f"unit {each}" for each in unit],
            "x": pyarrow.array(np.where(gap, np.nan, x), from_pandas=True),
            "late": pyarrow.array(late_text.tolist()),
            "kind": kind.tolist(),
            "site": ["north"] * rows,
            "name": [f"name {place}" for place in rng.permutation(rows)],
            "load": load,
        }
    )


def written(folder, parts):
    return [write(part, folder / f"{place}.csv") for place, part in enumerate(parts)]


def fitted(paths, **plan):
    source = Source(find_files(paths))
    fit = StreamFit.begin(source, FitPlan("load", **plan))
    fit.run(source.pieces())
    fit.end()
    return fit


def merged(paths, **plan):
    """Fits of parts with the kinds of columns of the first one, merged the last first."""
    whole, *others = (fitted([path], **plan) for path in reversed(paths))
    for other in others:
        whole.merge(other)
    return whole


def cut(rows, *ends):
    return [rows[a:b] for a, b in zip((0, *ends), (*ends, len(rows)), strict=True)]


def same(one, other, tolerance=1e-7):
    assert one.model.features == other.model.features
    assert one.model.design.left_out == other.model.design.left_out
    assert one.model.design.notes == other.model.design.notes
    a, b = one.model.learner.weights, other.model.learner.weights
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(a).max())


@pytest.mark.parametrize(
    ("seed", "loss", "hashed"),
    [(1, "squared", 0), (2, "squared", 4), (1, "logistic", 0), (1, "poisson", 0)],
)
def test_no_order_of_rows_files_or_merges_changes_columns_or_weights(tmp_path, seed, loss, hashed):
    """Fails if the first rows decide on categories, cycles, trends, means of gaps or constants.

    Other losses than the squared one keep rows, here all of them.
    """
    rows, plan = table(seed, loss), {"loss": loss, "hash_columns": hashed}
    whole = fitted(written(tmp_path, [rows]), **plan)
    names = whole.model.features
    assert sum(name.startswith("unit=") for name in names) == 29
    hour = "when: 09 h" if loss == "squared" else "when: hour sin"  # as its effect is large
    assert {"when: days", hour, "x: missing", "late: missing", "kind: other"} <= set(names)
    assert ("late=a" in names) != ("late=b" in names)  # the other is the reference
    too_many = "more than 256 different texts; `hash_columns=16` hashes them"
    left_out = {"No": "row numbers", "site": "constant", **({} if hashed else {"name": too_many})}
    assert whole.model.design.left_out == left_out
    assert sum(name.startswith("name#") for name in names) == max(hashed - 1, 0)
    assert whole.learner.columns < 130  # not one per name
    mixed = rows.take(np.random.default_rng(seed).permutation(len(rows)))
    shuffled = fitted(written(tmp_path, [mixed]), **plan)
    same(whole, shuffled)
    same(whole, fitted(written(tmp_path, cut(rows, 2500)[::-1]), **plan))
    same(whole, merged(written(tmp_path, cut(mixed, 900, 5000)), **plan))
    parts = written(tmp_path, cut(rows, 1700, 4100))
    forward, backward = (way(parts, **plan) for way in (fitted, merged))
    same(whole, backward)
    measures = [Facts(fit).metrics["in_sample"] for fit in (forward, backward)]
    assert measures[0] == pytest.approx(measures[1], rel=1e-9)  # also of a sample of rows
    if loss == "squared":
        r2 = [Facts(fit).metrics["in_sample"]["r2"] for fit in (whole, shuffled)]
        assert r2[0] == pytest.approx(r2[1], rel=1e-9)
