"""What is known about a fit, found once; text, JSON and the page show it."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

import mixfree
from mixfree.base.arithmetic import Array
from mixfree.linear.exact_learner import ExactLearner, knows_intervals
from mixfree.linear.summary import Line, Summary, lines_of, summary_of
from mixfree.streams.columns.column import Column, Number
from mixfree.streams.columns.target import label
from mixfree.streams.columns.time import Time
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.fit.timeline import CHUNK
from mixfree.streams.report.correlation import Correlation
from mixfree.streams.report.metrics import ROUNDING, metrics, of_all_rows

NAMES = {"r2": "R²", "rmse": "RMSE", "mae": "MAE", "auc": "AUC"}  # metrics as printed
PER_FEATURE = 20  # rows per feature needed for useful predictions
TREND = 0.5  # share of the target that a trend must explain to be mentioned
STORED = 1e-15  # bound on the rounding of numbers as stored, relative to their sizes
MIN_ROWS = 32  # least rows to look for a trend, or for a column that gives the target away
LEAKED = 0.999  # share of the target that a column alone explains only if it gives it away
MAX_NAMED = 5  # most columns that are named
EXPLAINS = 1e-6  # least effect, as a share of the target's, of a column that it is computed from
MIN_ALIKE = 5  # rows of a class, or with a code, that are no chance
MIN_COUNTS = 200  # least sampled targets for a remark on counts
GROWS = 1.5  # ratio of means, and of variances, between rows of large and small predictions
MUCH = 0.2  # difference of R² between rows seen and not seen that is a warning
OFTEN = 0.005  # least share of the rows with a number that may be a code
DIFFERENT = 10  # least number of other values of such a column
FEW_TESTED = 100  # least rows predicted ahead that are compared with the best constant


class Facts:
    """The findings about a fit, each made when it is first asked for."""

    def __init__(self, fit: StreamFit) -> None:
        self.fit = fit

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of the model and of constants by name."""
        return metrics(self.fit)

    @cached_property
    def quality(self) -> dict[str, list[list[str]]]:
        """The metrics as tables, by the rows they are about, one line per model.

        The loss is in them only if no other metric is equivalent to it, and forgotten rows are
        only if none was predicted.
        """
        fit, kept, tables = self.fit, len(self.fit.model.rows), {}
        ahead = fit.timeline.tested if fit.timeline.tested > 1 else 0
        if not (self.forgets and ahead):
            rows = "all rows" if kept == fit.used else f"{kept:,} rows drawn at random"
            caption = f"in-sample: {f'all rows (MAE: {rows})' if of_all_rows(fit) else rows}"
            tables[caption] = {"in_sample": "the model", "constant": "the best constant prediction"}
        if ahead:
            caption = f"test-then-train: {ahead:,} rows, each predicted before it was learnt"
            constant = "the best constant of the rows before"
            tables[caption] = {"test_then_train": "the model", "test_then_train_constant": constant}
        found, equivalent = self.metrics, fit.plan.loss in ("squared", "logistic")
        names = [each for each in found["in_sample"] if not (equivalent and each == "loss")]
        head = ["", *(NAMES.get(name, name.replace("_", " ")) for name in names)]

        def line(what: str, model: str) -> list[str]:
            numbers = found[what] | {"r2": round(found[what].get("r2", 0.0), 4) + 0.0}
            texts = (f"{numbers[name]:.4g}" for name in names)
            return [model, *(text.replace("nan", "unknown") for text in texts)]

        return {
            caption: [head, *(line(*each) for each in models.items())]
            for caption, models in tables.items()
        }

    @cached_property
    def only_rounding(self) -> bool:
        """Whether the model fits every row up to rounding errors."""
        fit, (_, learner, rows, targets) = self.fit, self.fit.model
        if fit.encoder.classes is not None or fit.used <= rows.shape[1] + 1:
            return False
        size, of = np.abs(learner.weights[0, : rows.shape[1]]), np.column_stack([rows, targets])
        stored, summed = (np.abs(each).mean(0) @ [*size, 1.0] for each in (of, of - of.mean(0)))
        bound = STORED * stored + ROUNDING * summed
        return bool(self.metrics["in_sample"]["rmse"] <= bound)

    @property
    def forgets(self) -> bool:
        """Whether old rows are forgotten, so that the weights are not for them."""
        return getattr(self.fit.learner, "forgetting", None) is not None

    @cached_property
    def correlation(self) -> Correlation | None:
        """The correlation of the rows; None if the errors are rounding or there is no profile."""
        learner = self.fit.model.learner
        if self.only_rounding or (profile := learner.profile()) is None:
            return None
        effective = learner.inference.effective_rows if isinstance(learner, ExactLearner) else None
        return Correlation.of(profile, learner.samples, effective)

    @cached_property
    def summary(self) -> Summary:
        """The table of all weights, with intervals and tests of columns of several features."""
        model, labels = self.fit.model, self.fit.encoder.classes or ()
        if self.only_rounding or not isinstance(model.learner, ExactLearner):
            errors = "rounding only" if self.only_rounding else "none with an iterative method"
            about = {"rows": f"{self.fit.used:,}", "errors": errors}
            lines = lines_of(model.learner, model.features, labels)
            return Summary(about, lines, {}, "", 0.95, marked=False)
        several = [(column.name, places) for column, places in self.used_columns if len(places) > 1]
        groups = {f"{name} as a whole": places for name, places in several}
        return summary_of(model.learner, model.features, labels, groups)

    @cached_property
    def effects(self) -> Array:
        """Change of the prediction per standard deviation of each feature, one row per output."""
        spread = self.fit.model.rows.std(axis=0)
        return np.asarray(self.fit.model.learner.weights[:, : len(spread)] * spread)

    @cached_property
    def used_columns(self) -> list[tuple[Column, range]]:
        """Columns that have features, and the places of these."""
        pairs = zip(self.fit.encoder.columns, self.fit.model.design.ranges, strict=True)
        return [(column, range(*ends)) for column, ends in pairs if ends[0] < ends[1]]

    @cached_property
    def unused_columns(self) -> dict[str, str]:
        """Columns left out, with reasons."""
        return {**self.fit.unused_columns, **self.fit.model.design.left_out}

    @cached_property
    def notes(self) -> list[str]:
        """Information for the user, which names arguments as in Python."""
        notes = [*self.fit.notes, *self.fit.model.design.notes, *self._trends(), *self._codes()]
        notes += [*self._counts(), *self._unreliable(), *self._bad_ahead()]
        return [note for note in notes if note]

    @cached_property
    def warnings(self) -> list[str]:
        """Probable mistakes."""
        return [*self._leaks(), *self._worse_than_constant()]

    @cached_property
    def drift(self) -> str | None:
        """What forgetting old rows is for, if the next rows are predicted much worse."""
        learner, found = self.fit.model.learner, self.correlation
        if self.fit.timeline.tested < FEW_TESTED or self.fit.plan.loss != "squared":
            return None
        inside, ahead = (self.metrics[name]["r2"] for name in ("in_sample", "test_then_train"))
        lasting = found is not None and found.rises
        changes = knows_intervals(learner) and (lasting or learner.inference.changed)
        if not ahead < inside - MUCH or not changes:  # also where targets tested are all alike
            return None
        return (
            f"the data changes over time: R² is {inside:.2f} on rows that the model has seen, "
            f"but was {ahead:.2f} on the next rows; `half_life='auto'` forgets old rows and "
            "follows such changes"
        )

    def plain(self, whole: bool = False) -> dict[str, Any]:
        """Return the content of the report, and with ``whole`` also settings, files and weights."""
        fit, encoder, learner = self.fit, self.fit.encoder, self.fit.model.learner
        gap = learner.gap if knows_intervals(learner) else None
        found = {
            "mixfree": mixfree.__version__,
            "target": encoder.target,
            "loss": fit.plan.loss,
            "method": fit.learner.method,
            "classes": encoder.classes,
            "complete": fit.complete,
            "rows": {
                "read": fit.read,
                "used": fit.used,
                "sampled": len(fit.model.rows),
                "tested": fit.timeline.tested,
                "seconds": fit.seconds,
                "left_out": [{"reason": why, "rows": n} for why, n in encoder.left_out.items()],
            },
            "columns": {
                "used": [
                    {"name": column.name, "kind": column.kind, "features": len(places)}
                    for column, places in self.used_columns
                ],
                "left_out": [{"name": n, "reason": why} for n, why in self.unused_columns.items()],
            },
            "metrics": self.metrics,
            "optimality_gap": gap and {"estimate": gap.estimate, "below": gap.upper},
            "correlation": self.correlation and self.correlation.plain(),
            "drift": self.drift,
            "notes": self.notes,
            "warnings": self.warnings,
        }
        if not whole:
            return found
        names = ("feature", "class", *Line._fields[2:])
        return found | {
            "plan": ", ".join(f"{name}={value!r}" for name, value in fit.plan.given().items()),
            "files": [{"name": file.name, "rows": file.rows} for file in fit.read_record.files],
            "weights": [dict(zip(names, each, strict=True)) for each in self.summary.lines],
        }

    def _leaks(self) -> Iterator[str]:
        """Yield warnings on columns that explain the target, or one that almost does so alone."""
        fit, (_, _, rows, targets) = self.fit, self.fit.model
        if self.only_rounding:
            largest = np.abs(self.effects[0]) > EXPLAINS * targets.std()
            names = [column.name for column, places in self.used_columns if largest[places].any()]
            listed = ", ".join(map(repr, names[:MAX_NAMED])) + ", …" * (len(names) > MAX_NAMED)
            if names:  # otherwise the target itself varies no more than rounding
                yield (
                    f"{fit.encoder.target!r} is computed from other columns, up to rounding: "
                    f"{listed}; `exclude` those that are not known before the target"
                )
            return
        classes, counts = np.unique(targets, return_counts=True)
        of, regression = targets[:, None], fit.encoder.classes is None
        enough = regression or (len(classes) > 1 and counts.min() >= MIN_ALIKE)
        if len(rows) < MIN_ROWS or not enough:
            return
        for column, places in self.used_columns:
            if regression or len(places) > 1:
                share = _explained(rows[:, places], of if regression else of == classes)
            else:  # a number, by which rows of each class are together
                changes = np.diff(targets[np.argsort(rows[:, places[0]], kind="stable")]) != 0.0
                share = float(changes.sum() < len(classes))
            if share > LEAKED:
                yield (
                    f"{column.name!r} alone explains {100 * share:.4g} % of {fit.encoder.target!r};"
                    f" if it is not known before the target, give `exclude={[column.name]!r}`"
                )

    def _counts(self) -> Iterator[str]:
        """Yield a note if the target is a count whose variance grows with its mean."""
        fit, (_, learner, rows, targets) = self.fit, self.fit.model
        whole = not ((targets < 0.0) | (targets % 1.0 != 0.0)).any()
        if fit.plan.loss != "squared" or not whole or len(targets) < MIN_COUNTS:
            return
        found = np.asarray(learner.predict(rows))
        low, high = np.array_split(np.argsort(found, kind="stable"), 2)
        errors = targets - found
        grows = targets[high].mean() > GROWS * targets[low].mean() > 0.0
        if grows and errors[high].var() > GROWS * errors[low].var():
            yield (
                f"if {fit.encoder.target!r} counts something, `loss='poisson'` is made for it: its "
                "variance grows with the mean"
            )

    def _trends(self) -> Iterator[str]:
        """Yield notes on dates whose trend explains the target, while only cycles are used."""
        fit, kept = self.fit, self.fit.reservoir
        if fit.encoder.classes is not None or not fit.encoder.growing or fit.used < MIN_ROWS:
            return
        for column in fit.encoder.columns:
            used = f"{column.name}: days" in fit.model.features
            place = column.place("days") if isinstance(column, Time) and not used else -1
            share = _explained(kept.rows[:, [place]], kept.targets[:, None]) if place >= 0 else 0.0
            if share > TREND:
                yield (
                    f"{column.name!r} as a number explains {100 * share:.0f} % of "
                    f"{fit.encoder.target!r}; `time='linear'` uses it so"
                )

    def _unreliable(self) -> Iterator[str]:
        """Yield why intervals, or the model itself, may not be reliable."""
        fit, features = self.fit, len(self.fit.model.features)
        if knows_intervals(fit.model.learner) and not self.only_rounding:
            yield fit.model.learner.inference.remark
        if fit.plan.loss == "squared" and fit.used <= features + 1:
            yield (
                f"{features:,} features can fit {fit.used:,} rows whatever their targets, and may "
                "predict other rows badly: `exclude` columns, or give `l2`"
            )

    def _bad_ahead(self) -> Iterator[str]:
        """Yield why test-then-train predictions were worse than a constant, if that is known."""
        fit, found, features = self.fit, self.metrics, len(self.fit.model.features)
        worth = self.correlation.effective_sample_size if self.correlation else fit.used
        if (
            fit.timeline.tested >= FEW_TESTED
            and self.drift is None
            and found["in_sample"]["loss"] < found["constant"]["loss"]
            and found["test_then_train"]["loss"] > found["test_then_train_constant"]["loss"]
            and features * PER_FEATURE > CHUNK * worth / fit.used
        ):
            yield (
                "test-then-train predictions were worse than the best constant: the first rows "
                f"were too few for {features:,} features (`l2` helps)"
            )

    def _codes(self) -> Iterator[str]:
        """Yield notes on numbers at the edge of a column, far from the others and frequent."""
        for column, places in self.used_columns:
            values = self.fit.model.rows[:, places[0]]
            for edge in (values.min(), values.max()) if type(column) is Number else ():
                others = values[values != edge]
                share = 1.0 - len(others) / len(values)
                often = share >= max(OFTEN, MIN_ALIKE / len(values))
                different = often and len({*others}) >= DIFFERENT
                if different and np.abs(others - edge).min() > np.ptp(others):
                    yield (
                        f"{column.name!r} is {edge:g} in about {100 * share:.2g} % of the rows, "
                        "far from all other values: if that means a gap, leave such cells empty"
                    )

    def _worse_than_constant(self) -> Iterator[str]:
        fit, targets = self.fit, self.fit.reservoir.targets
        if (targets == targets[0]).all():
            named = label(targets[0], fit.encoder.classes)
            yield f"targets other than {named} are too rare to be in the sample of rows"
            return
        model, constant = (self.metrics[what]["loss"] for what in ("in_sample", "constant"))
        if model > constant * (1.0 + ROUNDING) and not self.forgets:
            remedy = "there may be too few rows for so many features; `l2` helps"
            if not isinstance(fit.learner, ExactLearner):
                remedy = "more rows may help, or another `step_scale`; the ladder finds its own"
            yield f"worse than the best constant: {remedy}"


def check_something_learnt(fit: StreamFit) -> None:
    """Raise ValueError if there were no rows to learn from, or all had the same target."""
    if not fit.used:
        reasons = "; ".join(f"{n:,}: {why}" for why, n in fit.encoder.left_out.items())
        raise ValueError(f"all {fit.read:,} rows were left out ({reasons})")
    if not fit.varied:
        always = label(fit.reservoir.targets[0], fit.encoder.classes)
        raise ValueError(
            f"the target {fit.encoder.target!r} is always {always}: nothing can be learnt"
        )


def _explained(rows: Array, targets: Array) -> float:
    """Return the share of the variance of targets that a linear model of the rows explains."""
    rows, targets = rows - rows.mean(axis=0), targets - targets.mean(axis=0)
    total = (targets**2).sum()
    if not total:
        return 0.0
    weights = np.linalg.lstsq(rows, targets, rcond=1e-9)[0]
    return float(1.0 - ((targets - rows @ weights) ** 2).sum() / total)
