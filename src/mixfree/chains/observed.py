"""Transition counts of an observed path of labels of any kind."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.chains.chain import MAX_DENSE_STATES


@dataclass(frozen=True)
class ObservedPath:
    """Transition counts of a path over named states."""

    states: Sequence[Hashable]
    counts: Array
    samples: int

    @property
    def departures(self) -> Array:
        """Number of times each state was left for another."""
        departures: Array = self.counts.sum(axis=1) - self.counts.diagonal()
        return departures


def observe(path: Any, states: Iterable[Hashable] | None = None) -> ObservedPath:
    """Count the transitions of a path of integers, strings or other labels.

    Parameters
    ----------
    path
        The states in time order. Labels need not be sorted, nor numbered from zero.
    states
        All states, if the path may not have visited some; the visited ones by default.

    Examples
    --------
    >>> seen = observe(["rain", "sun", "sun", "rain", "sun"])
    >>> seen.states, seen.counts.tolist()
    (['rain', 'sun'], [[0, 2], [1, 1]])
    """
    labels = _labels(path)
    named, codes = _coded(labels)
    found: list[Hashable] = named.tolist()
    _check_not_measurements(named, len(labels))
    if states is not None:
        known = list(states)
        place = {state: index for index, state in enumerate(known)}
        if len(place) < len(known):
            raise ValueError("states contains a state twice")
        strangers = [state for state in found if state not in place]
        if strangers:
            raise ValueError(f"path visits {strangers[0]!r}, which is not among states")
        codes, found = np.array([place[state] for state in found])[codes], known
    if len(named) == 1:
        raise ValueError(
            f"path has only one state, {found[codes[0]]!r}: its mixing time cannot be estimated"
        )
    count = len(found)
    if count > MAX_DENSE_STATES:
        raise ValueError(f"path has {count} states; at most {MAX_DENSE_STATES} are supported")
    pairs = np.bincount(codes[:-1] * count + codes[1:], minlength=count**2)
    return ObservedPath(found, pairs.reshape(count, count), len(labels))


def _labels(path: Any) -> Array:
    if not isinstance(path, Iterable):
        raise ValueError(f"path = {path!r} must contain the states in time order")
    labels = path if isinstance(path, np.ndarray) and path.dtype != object else _alike(list(path))
    if labels.ndim != 1:
        raise ValueError(f"path has shape {labels.shape}; one state per sample is needed")
    if len(labels) < 2:
        raise ValueError(f"path has {len(labels)} samples; at least 2 are needed")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        place = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"path[{place}] = {labels[place]} is not a state")
    return labels


def _alike(items: list[Any]) -> Array:
    """Return items as an array; NumPy alone would silently turn 1 and "1" into one state."""
    for place, item in enumerate(items):
        if not isinstance(item, str | numbers.Real | np.bool_):
            raise ValueError(f"path[{place}] = {item!r} is neither a number nor text")
        if isinstance(item, str) != isinstance(items[0], str):
            raise ValueError(f"path mixes text and other labels: path[{place}] = {item!r}")
    return np.array(items)


def _coded(labels: Array) -> tuple[Array, Array]:
    """Return the sorted distinct labels, and the index of each sample's label among them."""
    if labels.dtype.kind in "iu" and int(labels.max()) - int(labels.min()) < len(labels):
        # Integers in a narrow range need no sorting.
        least = labels.min()
        offsets = (labels - least).astype(np.int64)
        present = np.bincount(offsets) > 0
        return np.flatnonzero(present).astype(labels.dtype) + least, (np.cumsum(present) - 1)[
            offsets
        ]
    return np.unique(labels, return_inverse=True)


def _check_not_measurements(named: Array, samples: int) -> None:
    if named.dtype.kind == "f" and len(named) > 10 and 2 * len(named) > samples:
        raise ValueError(
            f"path has {len(named)} different values in {samples} samples, like measurements: use "
            "autocorrelation_time for measurements"
        )
