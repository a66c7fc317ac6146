"""``mixfree methods``: the table of methods."""

__all__ = ["methods"]


def methods() -> None:
    """List the methods with their options.

    Options are given to `mixfree fit` by --option NAME=VALUE, the mixing time by --mixing-time.
    """
    from mixfree import methods as table

    print(
        f"{'exact':10} fit of all rows in one pass, whatever their order; auto takes it up to 1,000"
    )
    print(f"{'':10} features and the ladder above")
    for method in table().values():
        print(f"{method.name:10} {method.summary()}")
        if options := method.options():
            print(f"{'':10} options: {', '.join(options)}")
