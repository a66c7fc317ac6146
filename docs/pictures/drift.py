"""The true slope of the page's example, and its estimates by two fits."""

import numpy as np

from mixfree.base.figures import label_ends, new_figure
from mixfree.sklearn import StreamRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((4_000, 2))
slope = np.sin(np.arange(4_000) / 500)
y = slope * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(4_000)
models = {"never forgets": StreamRegressor(), "auto": StreamRegressor(half_life="auto")}
at, found = [], {name: [] for name in models}
for start in range(0, 4_000, 50):
    at.append(start + 50)
    for name, model in models.items():
        now = slice(start, start + 50)
        model.partial_fit(X[now], y[now])
        found[name].append(float(np.diff(model.predict([[0.0, 0.0], [1.0, 0.0]]))[0]))

figure, axes = new_figure(width=7.0, height=3.0)
axes.plot(slope, color="#8A8A8A", linewidth=4, alpha=0.5, label="true slope")
styles = {"auto": ("#5B2A86", "solid"), "never forgets": ("#5B2A86", (0, (1, 1)))}
for name, (color, dashes) in styles.items():
    axes.plot(at, found[name], color=color, linestyle=dashes, label=name)
axes.set(xlabel="rows", ylabel="slope of the first column", xlim=(0, 4_000))
title = "A slope that changes: half_life='auto' follows it, an ordinary fit averages it"
axes.set_title(title, loc="left", fontsize="medium")
label_ends(axes)
figure
