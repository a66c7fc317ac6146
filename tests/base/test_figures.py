import itertools
from pathlib import Path

import pytest

import mixfree as mf
from mixfree.base import figures


def two_lines():
    figure, axes = figures.new_figure()
    axes.plot([1, 10, 100], [1.0, 0.1, 0.01], label="first")
    axes.plot([1, 10, 100], [1.0, 0.3, 0.1], label="second")
    figures.log_log(axes, "samples", "gap")
    axes.legend()
    return figure


def test_series_differ_in_colour_and_in_dashes():
    """Catches a palette that repeats a colour, and axes that do not use it."""
    for column in (figures.PALETTE, figures.DASHES):
        assert len(set(column)) == len(figures.PALETTE)
    first, second = two_lines().axes[0].lines
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()


def test_a_method_has_one_colour_in_every_figure():
    """Colours by the place in a figure would give MAG another one beside two methods than alone."""
    assert set(mf.methods()) < set(figures.METHODS)
    alone = figures.styles_of(["MAG"])["MAG"]
    beside = figures.styles_of(["Adam", "sgd", "nothing kept: MAG", "MAG, 5 levels"])
    assert beside["nothing kept: MAG"] == alone
    assert beside["MAG, 5 levels"]["color"] == alone["color"]
    assert beside["MAG, 5 levels"]["linestyle"] != alone["linestyle"]
    assert beside["Adam"]["color"] not in (alone["color"], beside["sgd"]["color"])
    every = figures.styles_of(figures.METHODS).values()
    assert len({str(style) for style in every}) == len(figures.METHODS)


def test_labels_at_the_ends_of_lines_do_not_cover_one_another():
    """Three lines that end at almost the same place have three labels, in their order."""
    _, axes = figures.new_figure()
    for height in (1.0, 1.001, 1.002, 5.0):
        axes.plot([1, 10], [2.0, height], label=f"{height}")
    figures.log_log(axes)
    figures.label_ends(axes)
    heights = [text.xy[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == ["1.0", "1.001", "1.002", "5.0"]
    assert min(b - a for a, b in itertools.pairwise(heights)) > 0.059
    assert [text.get_color() for text in axes.texts] == [line.get_color() for line in axes.lines]


def test_both_formats_are_written_the_same_each_time(tmp_path: Path):
    first = figures.save(two_lines(), tmp_path / "deep" / "one.png")
    second = figures.save(two_lines(), tmp_path / "two")
    assert [path.name for path in first] == ["one.png", "one.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("name", ["figure.pdf", "p=0.25"])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match=name):
        figures.save(two_lines(), tmp_path / name)
