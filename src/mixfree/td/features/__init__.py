"""State features with ‖φ(s)‖ ≤ 1, as Section 5 assumes."""

from mixfree.td.features.fourier import FourierBasis
from mixfree.td.features.lookup import Features, as_features
from mixfree.td.features.radial import RadialBasis
from mixfree.td.features.table import rescaled, tabular
from mixfree.td.features.tiles import TileCoding

__all__ = [
    "Features",
    "FourierBasis",
    "RadialBasis",
    "TileCoding",
    "as_features",
    "rescaled",
    "tabular",
]
