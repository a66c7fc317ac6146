# %% [markdown]
# # Which PyTorch loop remembers the first classes?
#
# Digits arrive in runs of 100 of the same class. The same network learns from the same samples in
# the same order by Adam, by Adam with a memory of 500 digits, and by the ladder with such a memory,
# which needs no learning rate. Install with `pip install '.[cli,torch]'`.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import mixfree.torch

threads = torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
X, y = torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)
test, train = np.arange(len(y)) % 5 == 0, np.flatnonzero(np.arange(len(y)) % 5)
rng = np.random.default_rng(0)
classes = np.repeat(rng.integers(0, 10, 20), 100)
order = np.array([rng.choice(train[labels[train] == c]) for c in classes])


# %% [markdown]
# All three use the same loop; a memory adds one line.


# %%
def accuracies(make, memory=None):
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    model = torch.nn.Sequential(*layers)
    opt, found = make(model.parameters()), []
    for start in range(0, len(order), 4):
        rows = order[start : start + 4]
        batch = X[rows], y[rows]
        if memory is not None:
            batch = memory.mix(batch)  # the additional line
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        opt.step()
        with torch.no_grad():
            found.append(float((model(X[test]).argmax(1) == y[test]).float().mean()))
    return found


def adam(parameters):
    return torch.optim.Adam(parameters, lr=3e-3)


runs = {
    "Adam": accuracies(adam),
    "Adam with a memory": accuracies(adam, mixfree.torch.Memory(500, draws=4, seed=0)),
    "Ladder with a memory": accuracies(
        mixfree.torch.Ladder, mixfree.torch.Memory(500, draws=4, seed=0)
    ),
}

# %%
figure, axes = plt.subplots(figsize=(7, 3.2))
for name, curve in runs.items():
    axes.plot(4 * np.arange(1, len(curve) + 1), curve, label=name)
axes.set(xlabel="digits seen", ylabel="accuracy on all classes", ylim=(0, 1))
legend = axes.legend(ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %% [markdown]
# Next: [one changed line in PyTorch](../torch.md), [the measurements](../networks.md).
