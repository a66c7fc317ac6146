# %% [markdown]
# # Figure 1 of the paper
#
# Four methods on a chain of two states that is left once in 10,000 samples: the experiment of
# `mixfree reproduce fig1`, a fiftieth of its length and with three of its thirty seeds, so that
# it takes seconds. Needs `pip install '.[cli]'`.

# %%
from mixfree.chains import two_state
from mixfree.reproduce import experiment

figure1 = experiment("fig1")
settings = figure1.FULL.changed(samples=100_000, seeds=3)
print(settings.options())
print("mixing time", two_state(1e-4).mixing_time())

# %% [markdown]
# An experiment is a list of cells, each of which can be measured on its own, and a report of all
# rows.

# %%
cells = figure1.cells(settings)
rows = [row for cell in cells for row in figure1.measure(cell)]
report = figure1.report(rows, settings)
print(len(cells), "cells,", len(rows), "rows")

# %%
report.figures["fig1"]

# %%
report.show()

# %% [markdown]
# At this length the chain has changed its state some ten times, so that little can be told apart.
# The figure of full length and what it says are on [the page of
# claims](../reproduction.md#figure-1); `mixfree reproduce fig1` takes a minute on two cores and
# writes the same files on every machine.
