"""A fit of a user's own data, from what was asked for and a first look at the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mixfree.base.checks import check_one_of
from mixfree.core.methods import find_method
from mixfree.linear.losses import REGRESSIONS
from mixfree.streams.columns import LOOK, choose, kind_of, values_in, with_categories
from mixfree.streams.encoder import POLICIES, Encoder
from mixfree.streams.fitting import StreamFit
from mixfree.streams.model import LinearModel
from mixfree.streams.source import Source


@dataclass(frozen=True)
class Wish:
    """What the user asked for; checked when made.

    Attributes
    ----------
    target
        The column to predict.
    loss
        ``"squared"``, ``"huber"``, ``"robust"``, ``"logistic"``; None: by the target's type.
    features, exclude
        Columns to learn from, all others unless given, and columns to leave out.
    categories, classes
        Texts of a column, and of the target, where the first look would not show all.
    missing
        ``"error"``, ``"skip"`` or ``"mean"``.
    model
        Parameters of the model.
    compare
        Whether plain SGD learns from the same rows beside it.
    """

    target: str
    loss: str | None = None
    features: Sequence[str] = ()
    exclude: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    classes: Sequence[str] = ()
    missing: str = "error"
    model: Mapping[str, Any] = field(default_factory=dict)
    compare: bool = False

    def __post_init__(self) -> None:
        check_one_of(self.missing, "missing", POLICIES)
        if self.loss is not None:
            check_one_of(self.loss, "loss", (*REGRESSIONS, "logistic"))
        if self.classes:
            if len(set(self.classes)) < max(2, len(self.classes)):
                raise ValueError(
                    f"classes must be two or more different ones, not {', '.join(self.classes)}"
                )
            if self.loss not in (None, "logistic"):
                raise ValueError(f"classes do not go with the {self.loss} loss of a regression")
        method = find_method(self.model.get("method", "ladder"))
        method.check_options(self.model.get("options") or {})


def start(source: Source, wish: Wish) -> StreamFit:
    """A fit that has learnt nothing yet; the source is open and at its beginning."""
    columns, left = choose(source, wish.target, wish.features, wish.exclude, wish.categories)
    loss = wish.loss
    if loss is None:
        kind = kind_of(source.schema.field(wish.target).type)
        loss = "squared" if kind == "number" and not wish.classes else "logistic"
    source.open(Encoder(columns, wish.target, _classes(loss), wish.missing).types)
    look = source.look(LOOK)
    if not look:
        raise ValueError(f"{source.files[0]}: there are no rows")
    columns = with_categories(columns, look)
    classes = None
    if loss == "logistic":
        classes = list(wish.classes) or values_in(look, wish.target)
        if len(classes) < 2:
            raise ValueError(
                f"the target {wish.target!r} has only one class in its first {LOOK} rows, "
                f"{classes[0]!r}: give all classes with --classes"
                if classes
                else f"the target {wish.target!r} has no value in its first {LOOK} rows"
            )
        classes = sorted(classes)
    encoder = Encoder(columns, wish.target, classes, wish.missing)
    count = len(encoder.features)
    model = LinearModel(loss, count, classes, wish.model)
    plain = _plain_sgd(wish.model, count)
    rival = LinearModel(loss, count, classes, plain) if wish.compare else None
    settings = {**asdict(wish), "loss": loss, "left_columns": left}
    return StreamFit(encoder, model, rival, _plain(settings))


def resume(source: Source, fit: StreamFit, wish: Wish) -> None:
    """Open the source for a fit that goes on; ValueError if another was asked for."""
    asked = _plain(asdict(wish))
    for name, before in fit.settings.items():
        now = asked.get(name, before)
        if now != before and not (name == "loss" and now is None):
            raise ValueError(f"the model was begun with {name} {before!r}, not {now!r}")
    source.require_columns([column.name for column in fit.encoder.columns], "column")
    source.require_columns([fit.encoder.target], "target column")
    source.open(fit.encoder.types)


def open_for_prediction(source: Source, fit: StreamFit, keep: Sequence[str] = ()) -> None:
    """Open a source with the columns that a model needs, and those to copy."""
    source.require_columns([column.name for column in fit.encoder.columns], "column")
    source.require_columns(keep, "column")
    copied = {name: source.schema.field(name).type for name in keep}
    source.open({**copied, **fit.encoder.feature_types})


def _flag(option: str) -> str:
    """How an option of the method is given to the command."""
    return "--mixing-time" if option == "mixing_time" else f"--option {option}"


def _classes(loss: str) -> list[str] | None:
    return [] if loss == "logistic" else None


def _plain_sgd(parameters: Mapping[str, Any], features: int) -> dict[str, Any]:
    """Parameters of the rival: its step is 1 over the mean squared length of a standardised row."""
    step_scale = None if parameters.get("scale") is None else 1.0 / (features + 1)
    return {**parameters, "method": "sgd", "step_scale": step_scale, "options": None}


def _plain(value: Any) -> Any:
    """Tuples and mappings as lists and dicts, as a model file gives them back."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
