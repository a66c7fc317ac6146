# %% [markdown]
# # Figure 1 of the paper
#
# Four methods on a chain of two states that switches once in 10,000 samples on average. This is the
# experiment of `mixfree reproduce fig1` with a fiftieth of its length and three of its thirty
# seeds, so that it takes seconds. Install with `pip install '.[cli]'`.

# %%
from mixfree.chains import two_state
from mixfree.reproduce import experiment

figure1 = experiment("fig1")
settings = figure1.FULL.changed(samples=100_000, seeds=3)
print(settings.options())
print("mixing time", two_state(1e-4).mixing_time())

# %% [markdown]
# An experiment consists of cells, which are measured independently, and a report on all rows.

# %%
cells = figure1.cells(settings)
rows = [row for cell in cells for row in figure1.measure(cell)]
report = figure1.report(rows, settings)
print(len(cells), "cells,", len(rows), "rows")

# %%
report.figures["fig1"]

# %%
for table in report.all_tables():
    table.show()

# %% [markdown]
# At this length the chain changes its state only about ten times, which is too few to compare the
# methods. [The paper's claims, measured](../reproduction.md#figure-1) has the result at full
# length; `mixfree reproduce fig1` takes a minute on two cores.
