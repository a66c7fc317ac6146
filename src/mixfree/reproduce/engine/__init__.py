"""The engine that runs, stores, summarises and reports experiments."""
