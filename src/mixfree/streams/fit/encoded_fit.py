"""A learner of raw features, which decides on the features of its model from all rows."""

import math
from typing import Any

import numpy as np

from mixfree.base.arithmetic import MAX_VALUE, Array
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.streams.columns.design import Design
from mixfree.streams.columns.encoder import Encoder
from mixfree.streams.columns.time import CALENDARS
from mixfree.streams.read.source import Piece

__all__ = ["EncodedFit"]


class EncodedFit:
    """An encoder of columns, and the learner of its features.

    Attributes
    ----------
    encoder
        Encodes columns as raw features, or as features that the first rows have fixed.
    learner
        The linear model of them.
    """

    encoder: Encoder
    learner: LinearLearner

    @property
    def _growing(self) -> ExactLearner | None:
        """The learner, if all rows decide on the features."""
        learner = self.learner
        return learner if self.encoder.growing and isinstance(learner, ExactLearner) else None

    def _decide(self) -> tuple[Design, LinearLearner]:
        """Return the features that the rows so far have decided on, and their learner."""
        design, growing = self._design(self._best_calendar()), self._growing
        return design, self.learner if growing is None else self._mapped(growing, design)

    @staticmethod
    def _mapped(learner: ExactLearner, design: Design) -> ExactLearner:
        """Return the learner of the features: itself, if these are the raw ones."""
        return learner if design.is_identity else learner.mapped(design.matrix)

    def _design(self, calendar: str) -> Design:
        """Return the features as far as rows have shown them."""
        return self.encoder.design(calendar, self._raw_sums())

    def _raw_sums(self) -> Array:
        """Return the sums of raw features: the learner's, but the encoder's if rows had weights."""
        sums, growing = self.encoder.sums, self._growing
        return sums if growing is None or sums.any() else growing.column_sums()

    def _best_calendar(self) -> str:
        r"""Return how hours and weekdays are expected to predict best, by Akaike's criterion.

        .. math:: 2 n \bar\ell + 2 k

        with the mean loss :math:`\bar\ell` (for the squared loss, half the logarithm of the mean
        squared error) and k weights, and not rows but the days that they cover as n, since the rows
        of a day are alike. So the choice does not depend on the order of the rows.
        """
        time, learner, rows = self.encoder.times, self._growing, self.encoder.rows
        ways = CALENDARS[:1] if time is None or learner is None else time.calendars(rows)
        if time is None or learner is None or len(ways) < 2:
            return ways[0]
        days = max(min(time.days, rows), 1.0)
        matrices = [self._design(way).matrix for way in ways]
        if (found := learner.solved(matrices)) is not None:
            losses = [0.5 * math.log(max(error, 1e-300)) for _, error in found]
        else:
            models = [learner.mapped(each).mean_losses() for each in matrices]
            losses = [math.inf if each is None else each[0] for each in models]
        weights = [learner.loss.outputs * each.shape[1] for each in matrices]
        criteria = [2.0 * (days * a + k) for a, k in zip(losses, weights, strict=True)]
        return ways[int(np.argmin(criteria))]

    def _grow(self, columns: int) -> None:
        self.encoder.grow(columns)
        if isinstance(self.learner, ExactLearner):
            self.learner.grow(columns)

    def _follow_changes(self) -> Any:
        """Replace raw features as the encoder has done; return the map, or None for no change."""
        change, self.encoder.change = self.encoder.change, None
        if change is not None and isinstance(self.learner, ExactLearner):
            self.learner = self.learner.mapped(change)
        return change

    def _advance(self, piece: Piece, rows: Array, targets: Array, weights: Array | None) -> None:
        """Train the learner on rows of a batch."""
        try:
            self.learner.advance(rows, targets, weights)
        except ValueError:
            self.encoder.check_sizes(piece, MAX_VALUE)
            raise
