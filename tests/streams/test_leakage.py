"""Columns that leak two classes: synthetic streams for each clause of the rule."""

import numpy as np
import pyarrow as pa
import pytest

from mixfree.streams.report import leakage
from mixfree.streams.report.leakage import leakage_warnings
from tests.streams.data import fitted

ROWS = 3000
PLAIN = ["u", "v", "w"]


def stream(seed=3, **columns):
    """Return two classes that three columns predict in part, and columns made from the classes."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((ROWS, 3))
    second = rows @ [1.0, 1.0, 0.0] + rng.standard_normal(ROWS) > 1.5
    found = {name: rows[:, at] for at, name in enumerate(PLAIN)}
    for name, make in columns.items():
        found[name] = make(second, rng)
    return found | {"y": np.where(second, "yes", "no")}


def flipped(share):
    """Return the class as a number with noise, wrong in a share of the rows."""
    return lambda second, rng: (second ^ (rng.random(ROWS) < share)) + 0.1 * rng.random(ROWS)


def named(tmp_path, columns):
    fit = fitted((pa.table(columns), tmp_path / "d.parquet"), "y")
    return [each.split("'")[1] for each in leakage_warnings(fit)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, []),
        ({"copy": flipped(0.0)}, ["copy"]),
        ({"almost": flipped(0.01)}, ["almost"]),
        ({"good": flipped(0.1)}, []),
        (
            {"text": lambda second, rng: np.where(second, rng.choice(["a", "b"], ROWS), "c")},
            ["text"],
        ),
        ({"group": lambda second, rng: rng.choice([*"abcdefgh"], ROWS)}, []),
        ({"coin": lambda second, rng: rng.random(ROWS)}, []),
    ],
)
def test_a_column_is_named_if_it_tells_the_class_almost_alone(tmp_path, columns, expected):
    """A good column to which others add is no leak, but a copy or its coarser text is."""
    assert named(tmp_path, stream(**columns)) == expected


def test_a_strong_column_beside_others_that_help_is_not_named(tmp_path):
    """Right in 96 % of the rows; with the other column the fit is right in nearly all of them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, 2))
    second = rows @ [8.0, 0.9] > 0.0
    columns = {"u": rows[:, 0], "v": rows[:, 1], "y": np.where(second, "yes", "no")}
    assert (np.mean((rows[:, 0] > 0.0) == second) > 0.96) and named(tmp_path, columns) == []


def test_a_class_of_one_row_is_told_by_chance(tmp_path):
    """Any of many columns may have its greatest value in that row."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((1000, 30))
    rows[500, 7] = 9.0
    columns = {f"c{at}": rows[:, at] for at in range(30)}
    second = np.arange(1000) == 500
    assert named(tmp_path, columns | {"y": np.where(second, "yes", "no")}) == []


def test_the_best_threshold_is_that_of_a_search():
    """Catches a threshold between equal values, which would separate rows by their order."""
    rng = np.random.default_rng(5)
    for _ in range(500):
        values = rng.integers(0, 4, rng.integers(1, 9)).astype(float)
        second = rng.random(len(values)) < 0.5
        cuts = [*np.unique(values), np.inf]
        best = max(
            max(((values >= c) == second).sum(), ((values < c) == second).sum()) for c in cuts
        )
        assert leakage._by_threshold(values, second).sum() == best


def test_a_number_that_codes_one_of_three_classes_is_named(tmp_path):
    """Catches shares that are not those of the variance between classes."""
    rng = np.random.default_rng(2)
    which = rng.integers(3, size=ROWS)
    code = np.array([5.0, -1.0, 2.0])[which] + 0.001 * rng.standard_normal(ROWS)
    weak = which + 0.3 * rng.standard_normal(ROWS)
    columns = {"code": code, "weak": weak, "y": np.array(["a", "b", "c"])[which]}
    fit = fitted((pa.table(columns), tmp_path / "d.parquet"), "y")
    kept = fit.reservoir
    within = [kept.rows[kept.targets == each, 0].var() for each in range(3)]
    share = (
        1.0
        - np.bincount(kept.targets.astype(int)) @ within / len(kept.rows) / kept.rows[:, 0].var()
    )
    (found,) = leakage_warnings(fit)
    assert found.startswith(f"'code' alone explains {100 * share:.4g} % of 'y'; if it is not known")
