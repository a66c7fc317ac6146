"""The method of the page and three built-in methods, on a stream of two regimes."""

import numpy as np

import mixfree as mf
from mixfree.base.figures import label_ends, log_log, new_figure, styles_of
from mixfree.chains import two_state
from mixfree.gradients import MiniBatch
from mixfree.steps import Inverse


class Cubic(Inverse):
    """Steps α t^(−1/3)."""

    def move(self, state, direction, step, x):
        """Return the displacement against the direction."""
        return self.alpha * step ** (-1 / 3) * direction


class Slow(mf.Method):
    """Mini-batches of 8 with steps α t^(−1/3)."""

    name = "slow"

    def __init__(self, x0, **common):
        super().__init__(x0, MiniBatch(8), Cubic, **common)


rng = np.random.default_rng(0)
states = two_state(0.05).simulate(20_000, seed=0)
X = rng.standard_normal((20_000, 5))
optima = np.array([[1.0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0]])  # one per state of the chain
y = (X * optima[states]).sum(axis=1)
best = optima.mean(axis=0)
shown = np.unique(np.geomspace(50, len(X), 50).astype(int))
figure, axes = new_figure(width=7.0, height=3.2)
names = {"slow, the new one": Slow, "sgd": mf.SGD, "mag": mf.MAG, "ladder": mf.Ladder}
styles = styles_of(names)
for name, method in names.items():
    opt, far = method(np.zeros(5), **({"alpha": 0.1} if method is Slow else {})), []
    for row, target in zip(X, y, strict=True):
        opt.tell(row * (row @ opt.x - target))
        far.append(float(np.sum((opt.average - best) ** 2) / 2))
    axes.plot(shown, np.array(far)[shown - 1], label=name, **styles[name])
log_log(axes, "samples", "error of the average iterate")
axes.margins(x=0.0)
title = "A new method and three built-in methods, on a stream of two regimes"
axes.set_title(title, loc="left", fontsize="medium")
label_ends(axes)
figure
