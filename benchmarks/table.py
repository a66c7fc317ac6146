"""Tables for the benchmarks: printed, and kept for the report of the run."""

from mixfree.reproduce.engine.report import Table

shown = []


def show(title, head, lines):
    """Print a table; numbers get three digits that matter."""
    table = Table(title, head, [[_text(value) for value in line] for line in lines])
    table.show()
    shown.append(table)


def _text(value):
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
