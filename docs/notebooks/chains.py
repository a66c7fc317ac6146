# %% [markdown]
# # How fast does a chain forget?
#
# The mixing time is the number of steps after which the distribution of a chain is within ¼ of its
# stationary distribution in total variation, whatever the initial state. Install with
# `pip install '.[cli]'`.

# %%
import matplotlib.pyplot as plt
import numpy as np

from mixfree.chains import (
    MarkovChain,
    autocorrelation_time,
    estimate_mixing_time,
    two_state,
)

weather = MarkovChain([[0.9, 0.1], [0.5, 0.5]], states=["sun", "rain"])
print("mixing time", weather.mixing_time())
print("stationary distribution", weather.stationary.round(3), "of", weather.states)

# %% [markdown]
# The chain of the paper's experiment has two states and switches with probability p. The figure
# shows the distance to the stationary distribution against the number of steps; each curve crosses
# the line at its mixing time.

# %%
figure, axes = plt.subplots(figsize=(7, 3.2))
steps = np.unique(np.logspace(0, 5, 60).astype(int))
for p in (0.1, 0.01, 1e-3, 1e-4):
    chain = two_state(p)
    distances = [chain.distance(int(t)) for t in steps]
    axes.semilogx(steps, distances, label=f"p = {p:g}: {chain.mixing_time():,} steps")
axes.axhline(0.25, color="black", linewidth=0.8)
axes.set(xlabel="steps", ylabel="largest distance from the stationary distribution")
legend = axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %% [markdown]
# ## From a path alone
#
# Usually the chain is not known, and only one path of it was observed. The interval below is valid
# for every chain on these states, and becomes narrower as the path grows.

# %%
path = two_state(0.01).simulate(1_000_000, start=0, seed=0)
time = autocorrelation_time(path)
print(f"autocorrelation time {time.value:.0f} ± {time.standard_error:.0f}; the chain's is 99")
lengths = (1_000, 10_000, 100_000, 1_000_000)
found = [estimate_mixing_time(path[:length]) for length in lengths]
for length, each in zip(lengths, found, strict=True):
    print(f"{length:>9,} samples: {each}")

# %%
figure, axes = plt.subplots(figsize=(7, 2.6))
for length, each in zip(lengths, found, strict=True):
    unbounded = each.upper > 1e4
    axes.plot([length, length], [each.lower, 1e4 if unbounded else each.upper], "C0", linewidth=3)
    axes.plot(length, 1e4 if unbounded else np.nan, "C0^", markersize=9)
axes.axhline(35, color="black", linewidth=0.8)
labels = axes.set(
    xscale="log", yscale="log", xlabel="samples of the path", ylabel="mixing time (line: exact)"
)

# %% [markdown]
# Next: [Markov chains](../chains.md), [the coverage of these
# intervals](../coverage.md#mixing-times).
