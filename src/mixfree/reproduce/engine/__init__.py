"""How an experiment is run, stored, summarised and reported."""
