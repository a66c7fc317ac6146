"""A pass that is saved and resumed halfway, and an uninterrupted one."""

import pickle

import numpy as np

from mixfree.base.figures import label_ends, new_figure
from mixfree.sklearn import StreamRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 3))
y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(1000)
whole, resumed = StreamRegressor(), StreamRegressor()
at, of_whole, of_resumed = [], [], []
for start in range(0, 1000, 20):
    now = slice(start, start + 20)
    whole.partial_fit(X[now], y[now])
    if start == 500:
        resumed = pickle.loads(pickle.dumps(resumed))
    resumed.partial_fit(X[now], y[now])
    at.append(start + 20)
    of_whole.append(whole.coef_.copy())
    of_resumed.append(resumed.coef_.copy())
assert np.array_equal(of_whole, of_resumed)  # the claim of the title

figure, axes = new_figure(width=7.0, height=3.0)
for weight, line in enumerate(np.transpose(of_whole)):
    axes.plot(at, line, color="#5B2A86", linestyle="solid", label=f"weight {weight + 1}")
    axes.plot(at, np.transpose(of_resumed)[weight], "o", color="#D55E00", markersize=3)
axes.axvline(500, color="#8A8A8A", linewidth=1)
axes.annotate("saved and loaded", (510, 2.45), color="#555555", fontsize="small")
axes.set(xlabel="rows", ylabel="weight", xlim=(0, 1000))
title = "Uninterrupted (lines) and resumed (dots): the same weights, bit for bit"
axes.set_title(title, loc="left", fontsize="medium")
label_ends(axes)
figure
