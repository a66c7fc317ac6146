"""scikit-learn estimators for data in time order: one pass, never shuffled, resumable anywhere."""

from mixfree.sklearn.classifier import StreamClassifier
from mixfree.sklearn.encoder import StreamEncoder
from mixfree.sklearn.parts import fit_parts
from mixfree.sklearn.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamEncoder", "StreamRegressor", "fit_parts"]
