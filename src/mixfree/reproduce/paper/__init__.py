"""The paper's own experiment: its problem, Figures 1 and 2, Table 1, and an ablation."""
