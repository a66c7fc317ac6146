from pathlib import Path

import pytest

from mixfree.base import figures


def two_lines():
    figure, axes = figures.new_figure()
    axes.plot([1, 10, 100], [1.0, 0.1, 0.01], label="first")
    axes.plot([1, 10, 100], [1.0, 0.3, 0.1], label="second")
    figures.log_log(axes, "samples", "gap")
    axes.legend()
    return figure


def test_series_differ_in_colour_and_in_dashes():
    axes = two_lines().axes[0]
    first, second = axes.lines
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_no_two_styles_are_alike():
    styles = [str(figures.line_style(index)) for index in range(len(figures.PALETTE))]
    assert len(set(styles)) == len(figures.PALETTE) == len(figures.DASHES)
    assert figures.line_style(len(figures.PALETTE)) == figures.line_style(0)


def test_both_formats_are_written_the_same_each_time(tmp_path: Path):
    first = figures.save(two_lines(), tmp_path / "deep" / "one.png")
    second = figures.save(two_lines(), tmp_path / "two")
    assert [path.name for path in first] == ["one.png", "one.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("name", ["figure.pdf", "p=0.25"])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match=name):
        figures.save(two_lines(), tmp_path / name)
