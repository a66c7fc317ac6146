"""Options of estimators and methods, given as flags or as ``--set NAME=VALUE``."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

__all__ = ["SCALES", "settings"]

SCALES = ("auto", "running", "none")
# Options of the estimators with their defaults; all other options belong to a method.
_DEFAULTS: Mapping[str, Any] = {
    "method": "auto",
    "scale": "auto",
    "step_scale": None,
    "output": None,
    "l2": None,
    "memory": None,
    "draws": None,
    "half_life": None,
    "radius": None,
    "fit_intercept": True,
    "seed": 0,
}


def settings(given: Iterable[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a learner from flags and texts ``NAME=VALUE``.

    Examples
    --------
    >>> found = settings(["levels=9", "l2=0.5"], {"method": "mag"})
    >>> found["method"], found["l2"], found["options"]
    ('mag', 0.5, {'levels': 9})
    >>> settings(["half_live=5"], {})
    Traceback (most recent call last):
    ValueError: there is no option 'half_live'; did you mean 'half_life'?
    """
    known = _known()
    found = {name: value for name, value in flags.items() if value is not None}
    typed = frozenset(found)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or value in ("True", "False", "None"):
            raise ValueError(
                "--set must be NAME=VALUE with a JSON value or a word, such as "
                f"per_coordinate=false, not {text!r}"
            )
        if name not in known:
            near = get_close_matches(name.replace("-", "_"), known, n=3, cutoff=0.6)
            hint = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else "`mixfree methods` lists the options of the methods"
            )
            raise ValueError(f"there is no option {name!r}; {hint}")
        if name in found:
            twice = f"`{name}` and --set {name} are both" if name in typed else f"--set {name} is"
            raise ValueError(f"{twice} given{', leave out one' if name in typed else ' twice'}")
        found[name] = _value(value)
    if found.get("scale") == "none":
        found["scale"] = None
    options = {name: found[name] for name in found if name not in _DEFAULTS}
    return {
        **{name: found.get(name, default) for name, default in _DEFAULTS.items()},
        "options": options or None,
    }


def _known() -> list[str]:
    """Return every name that ``--set`` accepts."""
    from mixfree import methods

    of_methods = [name for method in methods().values() for name in method.options()]
    return list(dict.fromkeys([*_DEFAULTS, *of_methods]))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
