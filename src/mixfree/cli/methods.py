"""``mixfree methods``: the table of methods."""

from mixfree.cli.screen import say
from mixfree.cli.settings import SETTINGS


def methods() -> None:
    """List the methods, and all that --set of `mixfree fit` sets.

    \b
    Example:
      mixfree fit log.csv --target load --method mag --set levels=9 --set step_scale=100
    """
    from mixfree import methods as table

    wide = max(map(len, SETTINGS))
    say(f"{'exact':{wide}} Minimise the loss of all rows, in one pass; auto is exact up to")
    say(f"{'':{wide}} 2,000 weights (1,000 unless the loss is squared) and the ladder above.")
    for method in table().values():
        say(f"{method.name:{wide}} {method.summary()}")
        if options := method.options():
            say(f"{'':{wide}} --set {', '.join(options)}")
    say("", "All methods, by --set NAME=VALUE:")
    say(*(f"{name:{wide}} {meaning}" for name, meaning in SETTINGS.items()))
