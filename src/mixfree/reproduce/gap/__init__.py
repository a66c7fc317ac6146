"""Coverage of the bound on the optimality gap."""
