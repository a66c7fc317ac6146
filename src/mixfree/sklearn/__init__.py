"""scikit-learn estimators for data in time order: one pass, never shuffled, resumable anywhere."""

from mixfree.linear.classifier import StreamClassifier
from mixfree.linear.regressor import StreamRegressor

__all__ = ["StreamClassifier", "StreamRegressor"]
