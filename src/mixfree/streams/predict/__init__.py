"""Predictions for the rows of a stream."""
