"""Eight parts of a stream, fitted separately and merged one after another."""

import numpy as np

from mixfree.base.figures import label_ends, new_figure
from mixfree.sklearn import StreamRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((2_000, 3))
truth = np.array([1.0, 2.0, 3.0])
y = X @ truth + rng.standard_normal(2_000)
parts = [slice(start, start + 250) for start in range(0, 2_000, 250)]
fits = [StreamRegressor().fit(X[part], y[part]) for part in parts]
merged, one = StreamRegressor().fit(X[parts[0]], y[parts[0]]), StreamRegressor()
error = {"one process": [], "merged": [], "a part alone": []}
for number, part in enumerate(parts):
    one.partial_fit(X[part], y[part])
    if number:
        merged = merged.merge(fits[number])
    for name, model in zip(error, (one, merged, fits[number]), strict=True):
        error[name].append(float(np.linalg.norm(model.coef_ - truth)))
assert np.allclose(error["merged"], error["one process"], rtol=1e-10)  # the claim of the title

figure, axes = new_figure(width=7.0, height=3.0)
at = np.arange(1, 9)
axes.plot(at, error["a part alone"], "s", color="#8A8A8A", label="each part alone")
axes.plot(at, error["one process"], color="#5B2A86", label="one process (line)")
axes.plot(at, error["merged"], "o", color="#D55E00", label="merged parts (dots)")
axes.set(xlabel="parts read", ylabel="error of the weights", ylim=(0, None))
title = "Eight parts fitted separately and merged have the weights of one process"
axes.set_title(title, loc="left", fontsize="medium")
label_ends(axes, gap=0.1)
figure
