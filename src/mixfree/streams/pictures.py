"""The main figures of a report in one static figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixfree.base.figures import PALETTE, line_style, new_figure
from mixfree.base.literal import literal
from mixfree.streams.stream_fit import StreamFit
from mixfree.streams.views import Course, course, effects

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["pictures"]

EFFECTS = 15  # most features in the panel of weights
GREY = PALETTE[-1]


def pictures(fit: StreamFit) -> Figure:
    """Draw predictions and targets over time, errors over time, and the largest weights."""
    found, largest = course(fit), effects(fit, EFFECTS)
    height = 5.6 + 0.22 * len(largest)
    figure, (above, middle, below) = new_figure(
        3, width=8.0, height=height, height_ratios=[2.4, 2.0, 0.8 + 0.22 * len(largest)]
    )
    x = found.x.astype("M8[ms]") if found.dated else found.x
    above.fill_between(x, found.low, found.high, color=PALETTE[0], alpha=0.15, linewidth=0)
    above.plot(x, found.actual, label="actual", **line_style(0))
    above.plot(x, found.predicted, label="predicted (test-then-train)", **line_style(1))
    above.legend(frameon=False, ncols=2)
    above.set_title(_plain(f"{found.of}: mean and range"), loc="left")
    middle.sharex(above)
    _draw_error(middle, x, found, bool(fit.timeline.tested))
    places = np.arange(len(largest))[::-1]
    for place, each in zip(places, largest, strict=True):
        colour = GREY if each.may_be_zero else PALETTE[0]
        if each.low == each.low:
            below.plot([each.low, each.high], [place, place], color=colour, linestyle="solid")
        fill = "none" if each.may_be_zero else colour
        below.scatter([each.effect], [place], facecolors=fill, edgecolors=colour, zorder=3)
    below.axvline(0.0, color=GREY, linewidth=1.0)
    below.set_yticks(places, [_plain(each.name) for each in largest])
    below.set_title("Effect of one standard deviation; hollow: may be 0", loc="left")
    return figure


def _draw_error(axes: Any, x: Any, found: Course, tested: bool) -> None:
    if not tested:
        axes.set_title("No row was predicted before it was learnt", loc="left")
        return
    axes.plot(x, found.error, marker="o", markersize=3, **line_style(0))
    for jump in found.jumps:
        axes.axvline(x[jump.at], **line_style(1))
    title = f"Test-then-train {found.error_name}, lower is better; dashed where it jumps"
    axes.set_title(title, loc="left")
    axes.set_ylim(bottom=0.0)
    if not found.dated:
        axes.set_xlabel("row")


def _plain(text: str) -> str:
    """Return a text of the data, shortened, with dollars escaped, which begin formulas."""
    text = literal(text)
    return (text if len(text) <= 60 else text[:59] + "…").replace("$", r"\$")
