"""What the ladder's profile says about a stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mixfree.base.arithmetic import Array
from mixfree.steps import CorrelationScale, Profile
from mixfree.steps.profile import BLOCK_AT_HALF, ENOUGH, RISING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Correlation:
    """How correlated the gradients of a stream are.

    Attributes
    ----------
    lengths, ratios, errors
        Lengths of blocks in rows; how much more their halves differ than those of independent
        gradients would; and the standard error of that.
    found
        Over how many rows, and whether the stream is long enough to tell.
    rows
        Length of the stream.
    """

    lengths: Array
    ratios: Array
    errors: Array
    found: CorrelationScale
    rows: int

    @classmethod
    def of(cls, profile: Profile, rows: int) -> "Correlation":
        """The levels of a profile that have blocks enough.

        Examples
        --------
        >>> found = Correlation.of(
        ...     Profile(np.array([32, 64]), np.array([2.0, 4.0]), np.array([64, 32])), rows=2048
        ... )
        >>> found.inflation, found.scale, found.independent_rows
        (4.0, 7, 512.0)
        """
        enough = profile.blocks >= ENOUGH
        ratios = profile.ratios[enough]
        errors = ratios * np.sqrt(2.0 / profile.blocks[enough])
        return cls(profile.lengths[enough], ratios, errors, profile.correlation_scale(), rows)

    @property
    def inflation(self) -> float:
        """How many correlated rows are worth one independent row, at least: the plateau."""
        return float(self.ratios.max(initial=1.0))

    @property
    def scale(self) -> int:
        """Rows over which gradients stay correlated; a lower bound when :attr:`rising`."""
        return round(self.found.samples)

    @property
    def independent_rows(self) -> float:
        """As many independent rows would say as much about the optimum, at most."""
        return self.rows / self.inflation

    @property
    def correlated(self) -> bool:
        """Whether the plateau is above that of independent rows."""
        return self.inflation > RISING

    @property
    def rising(self) -> bool:
        """Whether the plateau is not in sight: longer blocks may be more inflated still."""
        return not self.found.resolved

    @property
    def _next_row_only(self) -> bool:
        return self.scale == 1 and not self.rising

    @property
    def _about(self) -> str:
        return "no more than the next row" if self._next_row_only else f"about {self.scale:,} rows"

    def lines(self) -> Iterator[str]:
        """The findings in words."""
        if self.ratios.size < 2:
            yield "too few rows to tell how correlated they are"
            return
        if not self.correlated:
            verdict = "" if self.rising else ": the rows are as good as independent"
            yield f"no correlation in blocks of up to {self.lengths[-1]:,} rows{verdict}"
        else:
            over = f"at least {self.scale:,} rows, likely more" if self.rising else self._about
            most = "at most " if self.rising else "about "
            yield f"gradients are correlated over {over}"
            yield (
                f"{self.rows:,} rows are worth {most}{self.independent_rows:,.0f} independent "
                f"ones ({self.inflation:,.3g} rows each)"
            )
        if self.rising:
            yield "correlation may reach further than the longest blocks: more rows would say more"

    def advice(self, size: float) -> Iterator[str]:
        """Which method and settings fit, for targets of that size."""
        if not self.correlated or self._next_row_only:
            yield "method: any; the default, ladder, needs no settings"
            return
        window = self.lengths[-1] if self.rising else BLOCK_AT_HALF * self.scale
        levels = max(1, int(np.ceil(np.log2(window))))
        yield "method: ladder, which needs no settings (the default)"
        yield f"        or --method mag --option levels={levels} --step-scale {size:.3g}:"
        yield f"        a window of up to {2**levels:,} rows, steps of the size of the target"
        if self.rising:
            yield "        none that needs the mixing time: the stream is too short to tell it"
        else:
            yield f"        or one that needs the mixing time, with --mixing-time {self.scale}"

    def bars(self, width: int = 40) -> Iterator[str]:
        """The profile as lines of text."""
        yield f"{'rows a block':>14}  {'inflation':>9}"
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
        log_log(axes, "rows a block", "variance of block sums / that of independent rows")
        few = self.lengths[:: 1 + self.lengths.size // 10]
        axes.set_xticks(few, [f"{length:,}" for length in few])
        axes.set_xticks([], minor=True)
        return figure
