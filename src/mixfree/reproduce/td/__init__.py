"""Section 5 measured: TD learning on reward processes with known fixed points."""
