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

# %% [markdown]
# Least-squares TD, the default, stores a matrix of size features². Where that is too much, the
# ladder stores only a few vectors, and needs no step size, no radius and no mixing time.

# %%
ladder = evaluate_policy(env, "uniform", samples=50_000, method="ladder")
for name, each in {"lstd": found, "ladder": ladder}.items():
    error = abs(each.values(states) - truth).max()
    print(f"{name:8} largest error {error:.3f} of {truth.max():.3f}")

# %%
figure, axes = plt.subplots(figsize=(7, 3))
values, at = found.values(states), np.arange(len(states))
around = [values - low, high - values]
axes.errorbar(at, values, around, fmt="o", capsize=3, label="LSTD, 99 % interval")
axes.plot(at, ladder.values(states), "x", label="ladder")
axes.plot(at, truth, "k_", markersize=14, label="exact value")
axes.set(xlabel="state", ylabel="value", xticks=at, xticklabels=states)
legend = axes.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %% [markdown]
# Next: [evaluate a policy](../td.md).
