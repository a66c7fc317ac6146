"""Distance of two methods from the minimum in the page's example."""

import numpy as np

import mixfree as mf
from mixfree.base.figures import label_ends, log_log, new_figure, styles_of

rng = np.random.default_rng(0)
samples = 3.0 + np.repeat(rng.standard_normal(500), 20)


def gradient(x, z):
    """Gradient of log cosh(x − z)."""
    return np.tanh(x - z)


ladder, mag = mf.Ladder([0.0]), mf.MAG([0.0], domain=mf.Ball(5.0))
ladder.remember(1000)
far = {"ladder, memory of 1,000": [], "mag": []}
for z in samples:
    for opt, line in zip((ladder, mag), far.values(), strict=True):
        for due in opt.offer(z):
            opt.tell(gradient(opt.x, due))
        line.append(float(abs(opt.average[0] - 3.0)))

figure, axes = new_figure(width=7.0, height=3.0)
shown = np.unique(np.geomspace(20, len(samples), 60).astype(int))
for name, style in styles_of(far).items():
    axes.plot(shown, np.array(far[name])[shown - 1], label=name, **style)
log_log(axes, "samples", "distance of the average from 3")
axes.margins(x=0.0)
title = "Distance from the minimum, on runs of 20 equal samples"
axes.set_title(title, loc="left", fontsize="medium")
label_ends(axes)
figure
