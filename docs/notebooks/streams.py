# %% [markdown]
# # What does a model forget if rows cannot be shuffled?
#
# Rows arrive in order, one chunk after another. This notebook compares scikit-learn's `partial_fit`
# with that of mixfree. Install with `pip install '.[cli]'`.

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from mixfree.sklearn import StreamClassifier, StreamRegressor

# %% [markdown]
# ## Digits, one class after another
#
# All images of 0 arrive first, then all of 1, and so on. SGD ends as a model of the last digit.

# %%
X, y = load_digits(return_X_y=True)
forgetful, model = SGDClassifier(random_state=0), StreamClassifier()
for digit in range(10):
    here = y == digit
    forgetful.partial_fit(X[here], y[here], classes=range(10))
    model.partial_fit(X[here], y[here], classes=range(10))

right = {
    "SGDClassifier": forgetful.predict(X) == y,
    "StreamClassifier": model.predict(X) == y,
}
figure, axes = plt.subplots(figsize=(7, 3))
for shift, (name, hits) in zip((-0.2, 0.2), right.items(), strict=True):
    shares = [hits[y == digit].mean() for digit in range(10)]
    axes.bar(np.arange(10) + shift, shares, 0.4, label=name)
axes.set(xlabel="digit", ylabel="fraction recognised", xticks=range(10))
legend = axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %% [markdown]
# ## How certain is a weight?
#
# The feature and the noise are both autocorrelated over about twenty rows. The usual standard error
# assumes independent rows and is far too small.

# %%
rng = np.random.default_rng(0)
x, noise = lfilter([1.0], [1.0, -0.95], rng.standard_normal((2, 20_000)))
model = StreamRegressor().fit(x[:, None], 2.0 * x + noise)
low, high = model.conf_int()[0]
print(f"the weight is between {low:.2f} and {high:.2f}; the truth is 2")
naive = noise.std() / (x.std() * np.sqrt(x.size))
print(f"its standard error is {model.bse_[0]:.4f}, that for independent rows {naive:.4f}")
print(f"{x.size:,} rows are worth {model.effective_rows_:,.0f} independent ones")

# %% [markdown]
# ## How correlated are the rows?
#
# The profile is the variance of sums over blocks of rows, relative to independent rows. It rises
# until the blocks are longer than the correlation of the stream.

# %%
lengths, inflation, blocks = model.profile_
figure, axes = plt.subplots(figsize=(7, 3))
axes.semilogx(lengths, inflation, marker="o", base=2)
labels = axes.set(xlabel="rows per block", ylabel="variance inflation")

# %% [markdown]
# Next: [from a file to a report](../start/file.md), [which method for my data?](../three-ways.md)
