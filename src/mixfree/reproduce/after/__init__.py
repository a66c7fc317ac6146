"""Methods after the paper: acceleration, games, and the geometry of the simplex."""
