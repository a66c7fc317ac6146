"""How correlated a stream is, from the profile of a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.steps import CorrelationScale, Profile
from mixfree.steps.profile import BLOCK_AT_HALF, ENOUGH, RISING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Correlation"]


@dataclass(frozen=True, repr=False)
class Correlation:
    """How correlated the gradients of a stream are.

    Attributes
    ----------
    lengths
        Block lengths in rows.
    ratios, errors
        Variance inflation of blocks of each length, relative to independent gradients, and its
        standard error.
    estimate
        Over how many rows gradients are correlated, and whether the stream is long enough to tell.
    rows
        Length of the stream.
    """

    lengths: Array
    ratios: Array
    errors: Array
    estimate: CorrelationScale
    rows: int

    @classmethod
    def of(cls, profile: Profile, rows: int) -> "Correlation":
        """The levels of a profile that have enough blocks.

        Examples
        --------
        >>> profile = Profile(np.array([32, 64]), np.array([2.0, 4.0]), np.array([64, 32]))
        >>> Correlation.of(profile, rows=2048)
        <correlation of 2,048 rows: scale 7 or more, inflation 4, effective sample size 512>
        """
        enough = profile.blocks >= ENOUGH
        ratios = profile.ratios[enough]
        errors = ratios * np.sqrt(2.0 / profile.blocks[enough])
        return cls(profile.lengths[enough], ratios, errors, profile.correlation_scale(), rows)

    def __repr__(self) -> str:
        more = " or more" if self.rising else ""
        return (
            f"<correlation of {self.rows:,} rows: scale {self.scale:,}{more}, inflation "
            f"{self.inflation:.3g}, effective sample size {self.effective_sample_size:,.0f}>"
        )

    @property
    def inflation(self) -> float:
        """The plateau of the ratios: how many rows are worth one independent row, at least."""
        return float(self.ratios.max(initial=1.0))

    @property
    def scale(self) -> int:
        """Rows over which gradients stay correlated; a lower bound when :attr:`rising`."""
        return round(self.estimate.samples)

    @property
    def effective_sample_size(self) -> float:
        """Number of independent rows that would tell as much; an upper bound when rising."""
        return self.rows / self.inflation

    @property
    def correlated(self) -> bool:
        """Whether the plateau is above that of independent rows."""
        return self.inflation > RISING

    @property
    def rising(self) -> bool:
        """Whether the plateau is not reached: longer blocks may be more inflated still."""
        return not self.estimate.resolved

    @property
    def _next_row_only(self) -> bool:
        return self.scale == 1 and not self.rising

    def lines(self) -> Iterator[str]:
        """The findings in words."""
        if self.ratios.size < 2:
            yield "too few rows to tell how correlated they are"
            return
        if not self.correlated:
            verdict = "" if self.rising else ": the rows are as good as independent"
            yield f"no correlation in blocks of up to {self.lengths[-1]:,} rows{verdict}"
        else:
            over = f"about {self.scale:,} rows"
            if self.rising:
                over = f"at least {self.scale:,} rows, probably more"
            elif self._next_row_only:
                over = "no more than the next row"
            yield f"gradients are correlated over {over}"
            yield (
                f"effective sample size: {'at most' if self.rising else 'about'} "
                f"{self.effective_sample_size:,.0f} of {self.rows:,} rows "
                f"(variance inflation {self.inflation:,.3g})"
            )
        if self.rising:
            yield "the correlation may be longer than the longest blocks: more rows would tell"

    def advice(self, size: float) -> Iterator[str]:
        """Which method and settings suit the stream, for targets of that size."""
        if not self.correlated or self._next_row_only:
            yield "method: any; ladder, the default, needs no settings"
            return
        window = self.lengths[-1] if self.rising else BLOCK_AT_HALF * self.scale
        levels = max(1, int(np.ceil(np.log2(window))))
        yield "method: ladder, the default, which needs no settings"
        yield f"        or `method='mag', options={{'levels': {levels}}}, step_scale={size:.3g}`:"
        yield f"        gradients from up to {2**levels:,} rows, steps of the size of the target"
        if self.rising:
            yield "        none that needs the mixing time: the stream is too short to estimate it"
        else:
            yield f"        or one that needs the mixing time, with `mixing_time={self.scale}`"

    def bars(self, width: int = 40) -> Iterator[str]:
        """The profile as lines of text."""
        yield f"{'rows per block':>14}  {'inflation':>9}"
        for length, ratio in zip(self.lengths, self.ratios, strict=True):
            bar = "█" * max(1, round(width * ratio / max(self.inflation, ratio)))
            yield f"{length:14,}  {ratio:9.3g}  {bar}"

    def plot(self) -> "Figure":
        """The profile as a figure."""
        from mixfree.base.figures import line_style, log_log, new_figure

        figure, axes = new_figure()
        axes.errorbar(
            self.lengths, self.ratios, yerr=self.errors, marker="o", capsize=3, **line_style(0)
        )
        axes.axhline(1.0, color="#777777", linewidth=1.0)
        axes.annotate(
            "independent rows",
            (1.0, 1.0),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            color="#555555",
        )
        log_log(axes, "rows per block", "variance of block sums / that of independent rows")
        few = self.lengths[:: 1 + self.lengths.size // 10]
        axes.set_xticks(few, [f"{length:,}" for length in few])
        axes.set_xticks([], minor=True)
        return figure
