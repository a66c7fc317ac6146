"""scikit-learn estimators for data in time order: one pass, never shuffled, resumable anywhere."""

from mixfree.linear.classifier import StreamClassifier
from mixfree.linear.regressor import StreamRegressor
from mixfree.streams.transformer import StreamEncoder

__all__ = ["StreamClassifier", "StreamEncoder", "StreamRegressor"]
