"""scikit-learn's own checks of an estimator, for exact fits and for an iterative method."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from mixfree.sklearn import StreamClassifier, StreamRegressor

# SGDRegressor and SGDClassifier are excused from the same two checks, for the same reason: a
# row of weight 2 is one step with twice the gradient, not two steps.
_WEIGHTS = "one weighted row is not several rows of a stream"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
    # Of iterative methods the check expects 1,000 passes; the exact method passes it with one.
    "check_class_weight_classifiers": "one pass over 50 rows that are not standardised",
}


@parametrize_with_checks(
    [
        StreamRegressor(),
        StreamClassifier(),
        StreamRegressor(method="ladder", scale=None),
        StreamClassifier(method="ladder", scale=None),
    ],
    expected_failed_checks=lambda estimator: (
        EXPECTED_FAILURES if estimator.method == "ladder" else {}
    ),
)
def test_estimator(estimator, check):
    check(estimator)
