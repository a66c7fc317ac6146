"""Tables for the benchmarks."""

from rich.console import Console
from rich.table import Table


def show(title, head, lines):
    """Print a table; numbers get three digits that matter."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right")
    for line in lines:
        table.add_row(*(_text(value) for value in line))
    Console(width=110).print(table)


def _text(value):
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
