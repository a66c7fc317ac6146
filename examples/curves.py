"""What the examples with figures share: curves over the samples seen, and their summaries."""

import time

import numpy as np

from mixfree.base.figures import line_style, save


def marks_of(samples, count=30):
    """Numbers of samples at which to evaluate, evenly over the run."""
    return sorted({int(mark) for mark in np.linspace(samples // count, samples, count)})


def last_fifth(curve):
    """Mean over the last fifth of a curve."""
    return float(curve[-len(curve) // 5 :].mean())


def with_average(axes, index, name, marks, plain, averaged):
    """Draw two curves of one method: broad for the average, thin for the last iterate."""
    axes.plot(marks, averaged, label=name, linewidth=2.2, **line_style(index))
    axes.plot(marks, plain, alpha=0.7, linewidth=0.8, **line_style(index))


def finish(drawing, path, begun, xlabel, ylabel):
    """Label the axes, save the figure if there is a path, and print the CPU time taken."""
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
