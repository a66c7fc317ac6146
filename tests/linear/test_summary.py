"""The table of a fit."""

import numpy as np
import pandas
import pytest

from mixfree.sklearn import StreamClassifier, StreamRegressor


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    return x, x[:, 0] + rng.normal(size=4000)


def test_the_table_has_the_numbers_of_the_fit(rows):
    """Fails if columns are exchanged, or R² is that of another model."""
    model = StreamRegressor().fit(*rows)
    summary = model.summary(alpha=0.1)
    for line, (low, high), error in zip(
        summary.lines, model.conf_int(0.1), model.bse_, strict=True
    ):
        assert (line.low, line.high, line.std_error) == (low, high, error)
        assert line.t == line.weight / line.std_error
    assert summary.facts["R²"] == f"{model.score(*rows):.4f}"
    assert [line.feature for line in summary.lines] == ["x0", "x1", "intercept"]
    text = str(summary)
    assert "90 % interval" in text
    assert "***" in text.splitlines()[7]


def test_a_stream_too_short_for_its_correlation_has_no_stars():
    """Fails if marks are printed beside intervals that are too narrow."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(400, 1)), axis=0)
    summary = StreamRegressor().fit(x, np.cumsum(rng.normal(size=400))).summary()
    assert "too narrow" in str(summary)
    assert "*" not in str(summary)


def test_classes_and_html(rows):
    """Fails if a name is not escaped, or the notebook shows the parameters only."""
    x, y = rows
    frame = pandas.DataFrame(x, columns=["<a>", "b"])
    model = StreamClassifier().fit(frame, np.digitize(y, [-1.0, 1.0]))
    assert "class 2" in str(model.summary())
    assert "relative to the mean" in model.summary().facts["weights"]
    shown = model._repr_mimebundle_()["text/html"]
    assert "&lt;a&gt;" in shown
    assert "<a>" not in shown
    assert "pseudo-R²" in shown
    assert "pseudo-R²" not in StreamClassifier()._repr_mimebundle_().get("text/html", "")


def test_the_class_of_the_weights_is_named_and_texts_are_tested_together(rows):
    """Fails for the other class, for a weight of a text at a time, and for other columns in it."""
    x, y = rows
    sky = np.array(["sun", "rain", "fog"])[np.digitize(x[:, 1], [-0.5, 0.5])]
    model = StreamClassifier().fit(pandas.DataFrame({"a": x[:, 0], "sky": sky}), y > 0.0)
    summary = model.summary()
    assert summary.facts["weights"] == "log-odds of True against False"
    assert summary.lines[0].weight > 0.0
    assert summary.tests == {"sky as a whole": model.wald("sky=*")}


def test_names_of_a_joint_test(rows):
    """Fails if a pattern or a wrong name is ignored."""
    model = StreamRegressor().fit(*rows)
    assert model.wald("x*") == model.wald([0, 1])
    with pytest.raises(ValueError, match="no feature 'y'"):
        model.wald(["x0", "y"])
