"""``mixfree methods``: the table of methods, and what ``--set`` of ``mixfree fit`` sets."""

import inspect
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from mixfree.base.terminal import say

# Settings without a flag, apart from the options of the methods; `mixfree methods` lists both.
SETTINGS = {
    "categories": "columns whose numbers are names of categories: month,code",
    "classes": "classes of the target, if the first 10,000 rows lack some: a,b",
    "memory": "rows to keep: a number, bytes such as 32MB (the default), or auto",
    "fit_intercept": "false: fit no intercept",
    "seed": "seed of all random draws, 0 by default",
    "radius": "iterative methods: keep the weights in a ball of this radius",
    "scale": "iterative methods: auto or running, standardise by the rows seen so far; or none",
    "step_scale": "iterative methods: scale of the steps, 1 by default; the ladder finds its own",
    "output": "iterative methods: the point returned, average, weighted, tail, last or random",
    "draws": "iterative methods with a memory: rows drawn from it per row read, 1 by default",
}
OF_COLUMNS = ("categories", "classes")


def methods() -> None:
    """List the methods, and the settings of `mixfree fit --set`.

    \b
    Example:
      mixfree fit log.csv --target load --method mag --set levels=9 --set step_scale=100
    """
    from mixfree import methods as table

    wide = max(map(len, SETTINGS))
    say(f"{'exact':{wide}} Minimise the loss of all rows, in one pass; auto is exact up to")
    say(f"{'':{wide}} 2,000 weights (1,000 unless the loss is squared) and the ladder above.")
    for method in table().values():
        say(f"{method.name:{wide}} {method.summary().replace('``', '')}")
        if options := method.options():
            say(f"{'':{wide}} --set {', '.join(options)}")
    say("", "All methods, by --set NAME=VALUE:")
    say(*(f"{name:{wide}} {meaning}" for name, meaning in SETTINGS.items()))


def settings(
    given: Iterable[str], flags: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a learner, and settings of columns, from flags and ``NAME=VALUE``.

    Examples
    --------
    >>> parameters, columns = settings(["levels=9", "categories=month"], {"method": "mag"})
    >>> parameters["method"], parameters["options"], columns
    ('mag', {'levels': 9}, {'categories': 'month'})
    >>> settings(["step_scael=5"], {})
    Traceback (most recent call last):
    ValueError: --set has no 'step_scael'; did you mean 'step_scale'?
    """
    from mixfree.linear.learner_for import learner_for

    signature = inspect.signature(learner_for).parameters.values()
    defaults = {each.name: each.default for each in signature if each.kind is each.KEYWORD_ONLY}
    found = {name: value for name, value in flags.items() if value is not None}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or value in ("True", "False", "None"):
            raise ValueError(
                "--set must be NAME=VALUE with a number, true, false or a word, such as "
                f"fit_intercept=false, not {text!r}"
            )
        if name in found:
            raise ValueError(f"`{name}` is given twice")
        known = [*known_settings(), *flags]
        if name not in known:
            near = get_close_matches(name.replace("-", "_"), known, n=3, cutoff=0.6)
            meant = f"did you mean {' or '.join(map(repr, near))}?"
            raise ValueError(
                f"--set has no {name!r}; {meant if near else '`mixfree methods` lists its names'}"
            )
        found[name] = None if value == "none" else value if name in OF_COLUMNS else value_of(value)
    columns = {name: found.pop(name) for name in OF_COLUMNS if name in found}
    options = {name: found.pop(name) for name in set(found) - set(defaults)}
    return {**defaults, **found, "options": options or None}, columns


def known_settings() -> list[str]:
    """Return the names that ``--set`` takes and that have no flag."""
    from mixfree import methods

    of_methods = [name for method in methods().values() for name in method.options()]
    return list(dict.fromkeys([*SETTINGS, *of_methods]))


def value_of(text: str) -> Any:
    """Return the number, the truth value or the word that was typed."""
    for read in (json.loads, float):  # JSON has no .5
        with suppress(ValueError):
            return read(text)
    return text
