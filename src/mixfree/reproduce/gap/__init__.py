"""How often the bound of the optimality gap holds."""
