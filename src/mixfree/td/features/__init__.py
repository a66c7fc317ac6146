"""State features with ‖φ(s)‖ ≤ 1, as Section 5 assumes."""

from mixfree.td.features.bases import FourierBasis, RadialBasis, TileCoding
from mixfree.td.features.lookup import Features, as_features, rescaled, tabular

__all__ = [
    "Features",
    "FourierBasis",
    "RadialBasis",
    "TileCoding",
    "as_features",
    "rescaled",
    "tabular",
]
