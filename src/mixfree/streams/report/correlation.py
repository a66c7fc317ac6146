"""The correlation of a stream, from the profile of a fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.steps import Profile
from mixfree.steps.profile import BLOCK_AT_HALF, MIN_BLOCKS, RISING, SUM_AT_HALF


@dataclass(frozen=True)
class Correlation:
    """How much the errors of neighbouring rows are alike.

    ``ratios`` are the variance inflation of blocks of ``lengths`` rows, relative to independent
    rows, with standard ``errors``. The errors are alike over ``scale`` rows, and all rows are
    worth ``effective_sample_size`` independent ones; if the inflation still ``rises`` at the
    longest blocks, the first is a lower bound and the second an upper one. Errors ``along_path``
    are those of iterates, which follow the stream and hide part of its correlation.
    """

    lengths: Array
    ratios: Array
    errors: Array
    scale: int
    rises: bool
    rows: int
    effective_sample_size: float
    along_path: bool

    @classmethod
    def of(cls, profile: Profile, rows: int, effective: float | None = None) -> "Correlation":
        """Select the levels of a profile that have enough blocks.

        ``effective`` is the effective sample size of the fit's intervals, if the profile is taken
        at the final weights; None if it is taken along the path of a run.
        """
        along_path = effective is None
        lengths, ratios, blocks = (each[profile.blocks >= MIN_BLOCKS] for each in profile)
        scale, resolved = profile.correlation_scale(BLOCK_AT_HALF if along_path else SUM_AT_HALF)
        if effective is None or np.isnan(effective):
            effective = rows / float(ratios.max(initial=1.0))
        errors = ratios * np.sqrt(2.0 / blocks)
        return cls(lengths, ratios, errors, round(scale), not resolved, rows, effective, along_path)

    @property
    def exists(self) -> bool:
        """Whether some blocks, or the batches of intervals, vary more than independent rows."""
        worst = float(self.ratios.max(initial=self.rows / self.effective_sample_size))
        return worst > RISING

    def plain(self) -> dict[str, Any]:
        """Return all numbers by name."""
        names = ("rows_per_block", "inflation", "std_error")
        profile = np.column_stack([self.lengths, self.ratios, self.errors]).tolist()
        return {
            "scale": self.scale,
            "resolved": not self.rises,
            "effective_sample_size": self.effective_sample_size,
            "along_path": self.along_path,
            "profile": [dict(zip(names, each, strict=True)) for each in profile],
        }

    def __str__(self) -> str:
        """Return what it means for the weights, in one sentence."""
        if self.ratios.size < 2 or (self.rises and not self.exists):
            return "too few rows to tell how correlated they are"
        if not self.exists:
            return "no correlation of the rows was found: they count as independent"
        worth = round(float(f"{self.effective_sample_size:.3g}"))
        return (
            f"your {self.rows:,} rows carry as much information about the weights as "
            f"{'at most' if self.rises or self.along_path else 'about'} {worth:,} independent ones"
        )
