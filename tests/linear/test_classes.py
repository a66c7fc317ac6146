"""Classes and targets of labels."""

import numpy as np
import pytest

from mixfree.linear.classes import distinct_labels, targets_of


@pytest.mark.parametrize("labels", ["a", "aaa", "ab", "aab", "bab", "aaabc", "abca", "cba"])
@pytest.mark.parametrize("dtype", [str, object])
def test_condensed_labels_are_the_same_set(labels, dtype):
    labels = np.array(list(labels), dtype)
    found = distinct_labels(labels)
    assert set(found) == set(labels)
    assert len(found) == 2 or found is labels


@pytest.mark.parametrize("classes", [[2, 5], [2, 5, 7]])
@pytest.mark.parametrize("new", [1, 4, 9])
def test_an_unknown_label_is_refused(classes, new):
    with pytest.raises(ValueError, match=rf"y has labels \[{new}\], which are not among"):
        targets_of(np.array([2, 5, new, 2]), np.array(classes))
