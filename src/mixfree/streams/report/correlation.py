"""The correlation of a stream, from the profile of a fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.linear.exact_learner import ExactLearner
from mixfree.linear.learner_for import LinearLearner
from mixfree.steps import CorrelationScale, Profile
from mixfree.steps.profile import BLOCK_AT_HALF, MIN_BLOCKS, RISING, SUM_AT_HALF

__all__ = ["NOTHING_TO_TELL", "Correlation"]

NOTHING_TO_TELL = (
    "the model fits every row up to rounding errors, which tell nothing about the correlation of "
    "the rows"
)


@dataclass(frozen=True)
class Correlation:
    """The correlation of the gradients of a stream.

    ``ratios`` are the variance inflation of blocks of ``lengths`` rows, relative to independent
    rows, with standard ``errors``. When :attr:`rising`, ``effective_sample_size``, the equivalent
    number of independent rows, is an upper bound. Gradients ``along_path`` are taken at the
    iterates of a run, which follow the stream.
    """

    lengths: Array
    ratios: Array
    errors: Array
    estimate: CorrelationScale
    rows: int
    effective_sample_size: float
    along_path: bool = True

    @classmethod
    def of(cls, profile: Profile, rows: int, effective: float | None = None) -> "Correlation":
        """Select the levels of a profile that have enough blocks.

        ``effective`` is the effective sample size of the fit's intervals, if the profile is taken
        at the final weights; None if it is taken along the path of a run.

        Examples
        --------
        >>> profile = Profile(np.array([32, 64]), np.array([2.0, 4.0]), np.array([64, 32]))
        >>> found = Correlation.of(profile, rows=2048)
        >>> found.scale, found.effective_sample_size, found.rising
        (7, 512.0, True)
        """
        along_path = effective is None
        lengths, ratios, blocks = (each[profile.blocks >= MIN_BLOCKS] for each in profile)
        estimate = profile.correlation_scale(BLOCK_AT_HALF if along_path else SUM_AT_HALF)
        if effective is None or np.isnan(effective):
            effective = rows / float(ratios.max(initial=1.0))
        errors = ratios * np.sqrt(2.0 / blocks)
        return cls(lengths, ratios, errors, estimate, rows, effective, along_path)

    @classmethod
    def of_learner(cls, learner: LinearLearner) -> "Correlation | None":
        """Return the correlation of a learner's rows, None without a profile."""
        profile = learner.profile()
        if profile is None:
            return None
        effective = learner.inference.effective_rows if isinstance(learner, ExactLearner) else None
        return cls.of(profile, learner.samples, effective)

    @property
    def scale(self) -> int:
        """Rows over which gradients stay correlated; a lower bound when :attr:`rising`."""
        return round(self.estimate.samples)

    @property
    def correlated(self) -> bool:
        """Whether some blocks vary more than blocks of independent rows."""
        return float(self.ratios.max(initial=1.0)) > RISING

    @property
    def rising(self) -> bool:
        """Whether the inflation still rises at the longest blocks."""
        return not self.estimate.resolved

    def plain(self) -> dict[str, Any]:
        """Return all numbers by name."""
        names = ("rows_per_block", "inflation", "std_error")
        profile = np.column_stack([self.lengths, self.ratios, self.errors]).tolist()
        return {
            "scale": self.scale,
            "resolved": not self.rising,
            "effective_sample_size": self.effective_sample_size,
            "along_path": self.along_path,
            "profile": [dict(zip(names, each, strict=True)) for each in profile],
        }

    def lines(self) -> Iterator[str]:
        """Yield the findings in words."""
        if self.ratios.size < 2:
            yield "too few rows to tell how correlated they are"
            return
        if not self.correlated:
            few = ", but they are too few to tell" if self.rising else ": they count as independent"
            yield f"no correlation of the rows was found{few}"
            return
        about, less = "about", ""
        if self.rising:
            about, less = "at most", ": errors are alike for longer than these rows can show"
        elif self.scale > 1:
            less = f": errors are alike over about {self.scale:,} rows"
        yield (
            f"your {self.rows:,} rows carry as much information about the weights as {about} "
            f"{_rounded(self.effective_sample_size):,} independent ones{less}"
        )
        if self.along_path:
            yield "measured along the path of the weights, which hides part of the correlation"


def _rounded(value: float) -> int:
    """Round to three digits."""
    whole = round(value)
    return round(whole, 3 - len(str(whole))) if whole > 999 else whole
