import pytest

from mixfree.reproduce.engine.report import Settings

SETTINGS = Settings(samples=1000, seeds=2, methods=("mag", "sgd"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": 31}, "samples must be a whole number of at least 32, not 31"),
        ({"seeds": 0}, "seeds"),
        ({"methods": ("mag", "adam")}, "method must be one of .*, not 'adam'"),
        ({"methods": ("mag", "mag")}, "methods contains a value twice"),
        ({"p": (0.5,)}, "`p` does not apply to this experiment"),
    ],
)
def test_a_wrong_choice_is_named_and_what_is_not_given_stays(given, message):
    with pytest.raises(ValueError, match=message):
        SETTINGS.changed(**given)
    assert SETTINGS.changed(samples=None, seeds=7) == Settings(1000, 7, ("mag", "sgd"))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, float("nan")])
def test_p_is_strictly_between_0_and_1(p):
    with pytest.raises(ValueError, match="p must be a probability"):
        Settings(samples=1000, seeds=1, p=(p,))
