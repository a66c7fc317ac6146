"""``mixfree methods``: the table of methods."""

from mixfree.cli.screen import say

__all__ = ["methods"]


def methods() -> None:
    """List the methods with their options.

    Options are given to `mixfree fit` by --set NAME=VALUE, the mixing time by --mixing-time.
    """
    from mixfree import methods as table

    wide = max(map(len, table()))
    say(f"{'exact':{wide}} Fit of all rows in one pass, whatever their order; auto is exact up to")
    say(f"{'':{wide}} 1,000 features and the ladder above.")
    for method in table().values():
        say(f"{method.name:{wide}} {method.summary()}")
        if options := method.options():
            say(f"{'':{wide}} options: {', '.join(options)}")
