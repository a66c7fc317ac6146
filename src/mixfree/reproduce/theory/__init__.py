"""The paper's bounds as plain functions, and their measurement (``mixfree reproduce theory``)."""

from mixfree.reproduce.theory.bounds import (
    convex_rate,
    decorrelation_time,
    deviation,
    distance_bound,
    expected_cost,
    mean_error,
    mean_square_error,
    regret,
    second_moment,
)

__all__ = [
    "convex_rate",
    "decorrelation_time",
    "deviation",
    "distance_bound",
    "expected_cost",
    "mean_error",
    "mean_square_error",
    "regret",
    "second_moment",
]
