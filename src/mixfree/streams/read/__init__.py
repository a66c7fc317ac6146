"""Files as one stream of record batches."""
