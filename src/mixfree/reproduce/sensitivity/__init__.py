"""Figure 1 under the choices that the paper leaves open."""
