"""Files in time order, read in batches and learnt from in one pass."""
