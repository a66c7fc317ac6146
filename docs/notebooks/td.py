# %% [markdown]
# # What is a state worth?
#
# This notebook estimates the value of every state of FrozenLake under the uniform policy from one
# long run, with intervals that allow for the correlation of the transitions. FrozenLake publishes
# its transition probabilities, so that the exact values are known. Install with
# `pip install '.[cli,rl]'`.

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from mixfree.td import RewardProcess, evaluate_policy

env = gymnasium.make("FrozenLake-v1")
found = evaluate_policy(env, "uniform", samples=50_000)
exact = RewardProcess.from_gymnasium(env, "uniform", gamma=0.9)
states = np.asarray(exact.visited)
low, high = found.interval(states)
truth = exact.values[states]
print(found)
inside = int(((low <= truth) & (truth <= high)).sum())
print(f"{inside} of {len(states)} values are in their intervals")

# %%
figure, axes = plt.subplots(figsize=(7, 3))
values = found.values(states)
at = np.arange(len(states))
around = [values - low, high - values]
axes.errorbar(at, values, around, fmt="o", capsize=3, label="99 % interval")
axes.plot(at, truth, "k_", markersize=14, label="exact value")
axes.set(xlabel="state", ylabel="value", xticks=at, xticklabels=states)
legend = axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %% [markdown]
# ## Too many features for least squares
#
# Least-squares TD, the default, stores a matrix of size features². Iterative methods store only a
# few vectors and are less accurate. The ladder needs no step size, no radius and no mixing time.

# %%
for method in ("lstd", "ladder"):
    found = evaluate_policy(env, "uniform", samples=50_000, method=method)
    error = abs(found.values(states) - truth).max()
    print(f"{method:8} largest error {error:.3f} of {truth.max():.3f}")

# %% [markdown]
# Next: [evaluate a policy](../td.md).
