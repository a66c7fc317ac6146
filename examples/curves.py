"""Helpers of the examples: curves over the samples seen, their summaries, and reports."""

import re
import time
from pathlib import Path

import numpy as np

from mixfree.base.figures import new_figure, save
from mixfree.base.terminal import Table
from mixfree.reproduce.engine.run import write_report


def marks_of(samples, count=30):
    """Sample counts at which to evaluate, evenly spaced over the run."""
    return sorted({int(mark) for mark in np.linspace(samples // count, samples, count)})


def last_fifth(curve):
    """Return the mean over the last fifth of a curve."""
    return float(curve[-len(curve) // 5 :].mean())


def with_average(axes, style, name, marks, plain, averaged):
    """Draw two curves of one method: thick for the average, thin for the last iterate."""
    axes.plot(marks, averaged, label=name, linewidth=2.2, **style)
    axes.plot(marks, plain, alpha=0.7, linewidth=0.8, **style)


def finish(drawing, path, begun, xlabel, ylabel):
    """Label the axes, save the figure if there is a path, and print the CPU time."""
    for axes in drawing.axes:
        axes.set_xlabel(xlabel)
    drawing.axes[0].set_ylabel(ylabel)
    handles = drawing.axes[0].get_legend_handles_labels()
    if len(drawing.axes) > 1 or len(handles[0]) > 4:
        columns = len(handles[0]) if len(drawing.axes) > 1 else 3
        drawing.legend(*handles, loc="outside upper center", ncols=columns)
    else:
        drawing.axes[0].legend()
    if path:
        print(f"figure: {save(drawing, path)[0]}")
    print(f"{time.process_time() - begun:.0f} s")


def keep(script, title, found, head, seeds=(), digits=3):
    """Write a table of the results and its picture to ``results/NAME``, for ``tools/publish.py``.

    ``found`` has rows by name, or pairs of a name and a row; None is an empty cell.
    """
    pairs = found.items() if isinstance(found, dict) else found
    lines = [(name, *(_cell(value, digits) for value in np.atleast_1d(row))) for name, row in pairs]
    path = Path(script)
    folder, command = Path("results") / path.stem.replace("_", "-"), f"python examples/{path.name}"
    write_report(folder, command, [Table(title, ["", *head], lines)], list(seeds))
    print(f"table and picture: {_draw(lines, head, title, folder / 'table')}")


def _draw(lines, head, title, path):
    """Draw the first number of every cell as a dot: a line per row, a colour per column."""
    drawing, axes = new_figure(width=7.0, height=1.2 + 0.4 * len(lines))
    numbers = [[_number(cell) for cell in line[1:]] for line in lines]
    for name, column in zip(head, zip(*numbers, strict=True), strict=True):
        axes.plot(column, range(len(lines)), "o", label=name)
    if np.nanmin(numbers) > 0.0 and np.nanmax(numbers) > 30.0 * np.nanmin(numbers):
        axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [line[0] for line in lines])
    axes.invert_yaxis()
    axes.set_title(title, loc="left", fontsize="small")
    drawing.legend(loc="outside lower center", ncols=4, fontsize="small")
    return save(drawing, path)[0]


def _number(cell):
    found = re.match(r"-?\d[\d.]*(e-?\d+)?", cell)
    return float(found[0]) if found else np.nan


def _cell(value, digits):
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.{digits}f}"
