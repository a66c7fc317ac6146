"""Temporal-difference learning with linear values (Section 5), on one trajectory."""

from mixfree.td.evaluate import Evaluation, evaluate_policy
from mixfree.td.features import FourierBasis, RadialBasis, TileCoding, rescaled, tabular
from mixfree.td.learner import TDLearner
from mixfree.td.methods import td_methods
from mixfree.td.reward_process import RewardProcess, Trajectory

__all__ = [
    "Evaluation",
    "FourierBasis",
    "RadialBasis",
    "RewardProcess",
    "TDLearner",
    "TileCoding",
    "Trajectory",
    "evaluate_policy",
    "rescaled",
    "tabular",
    "td_methods",
]
