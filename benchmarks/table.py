"""Tables of the benchmarks, printed and kept for the report of the run."""

from mixfree.base.terminal import Table

shown = []


def show(title, head, lines):
    """Print a table, with numbers to three significant digits."""
    table = Table(title, head, [[_text(value) for value in line] for line in lines])
    table.show()
    shown.append(table)


def _text(value):
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
