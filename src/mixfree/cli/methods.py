"""``mixfree methods``: the table of methods."""

from mixfree.cli.screen import say

__all__ = ["methods"]


def methods() -> None:
    """List the methods and their options.

    Give options to `mixfree fit` as --set NAME=VALUE, and the mixing time as --mixing-time.
    """
    from mixfree import methods as table

    wide = max(map(len, table()))
    say(f"{'exact':{wide}} Minimise the loss of all rows, in one pass; auto is exact up to")
    say(f"{'':{wide}} 2,000 weights (1,000 unless the loss is squared) and the ladder above.")
    for method in table().values():
        say(f"{method.name:{wide}} {method.summary()}")
        if options := method.options():
            say(f"{'':{wide}} options: {', '.join(options)}")
