"""Figure 1 over the choices that the paper leaves open."""
