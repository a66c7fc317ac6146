"""Section 4 measured: gradient norms of MAG on bounded, smooth problems that are not convex."""
