"""Tables, in Markdown and on the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from mixfree.base.extras import require
from mixfree.base.literal import literal


@dataclass(frozen=True)
class Table:
    """A table; the first column is aligned left, the others right."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[object]]

    def markdown(self) -> str:
        """Format as Markdown.

        Examples
        --------
        >>> print(Table("Squares", ["n", "n²"], [(3, 9)]).markdown())
        Squares
        <BLANKLINE>
        | n | n² |
        |:--|--:|
        | 3 | 9 |
        """
        rule = "|:--" + "|--:" * (len(self.head) - 1) + "|"
        rows = ["| " + " | ".join(map(str, line)) + " |" for line in self.lines]
        return "\n".join([self.title, "", "| " + " | ".join(self.head) + " |", rule, *rows])

    def show(self) -> None:
        """Print to the terminal."""
        table = require("rich.table").Table(title=literal(self.title), title_justify="left")
        for index, name in enumerate(self.head):
            table.add_column(name, justify="right" if index else "left")
        for line in self.lines:
            table.add_row(*(literal(str(cell)) for cell in line))
        require("rich.console").Console(markup=False, emoji=False, highlight=False).print(table)
