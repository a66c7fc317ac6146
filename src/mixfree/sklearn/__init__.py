"""scikit-learn estimators for data in time order: one pass, never shuffled, resumable anywhere."""

from mixfree.sklearn.classifier import StreamClassifier
from mixfree.sklearn.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
