"""The paper's bounds as plain functions, and their measurement (``mixfree reproduce theory``)."""

from mixfree.reproduce.theory.bounds import (
    convex_rate,
    coupling_bound,
    decorrelation_time,
    delayed_deviation,
    deviation,
    distance_bound,
    expected_cost,
    independent_deviation,
    mean_error,
    mean_square_error,
    nonconvex_rate,
    regret,
    second_moment,
    stationary_deviation,
    td_rate,
)

__all__ = [
    "convex_rate",
    "coupling_bound",
    "decorrelation_time",
    "delayed_deviation",
    "deviation",
    "distance_bound",
    "expected_cost",
    "independent_deviation",
    "mean_error",
    "mean_square_error",
    "nonconvex_rate",
    "regret",
    "second_moment",
    "stationary_deviation",
    "td_rate",
]
