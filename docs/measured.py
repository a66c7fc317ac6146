"""Numbers on pages: ``{measured}`` shows tables that a command has written, and their age.

``docs/data/NAME`` holds the tables in ``report.md`` and their record in ``measured.json``: command,
date, machine, seeds, versions of packages and commit. ``tools/publish.py`` writes both. An unknown
name or title fails the build.
"""

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

DATA = Path(__file__).parent / "data"


def tables(report: str) -> dict[str, str]:
    """Return Markdown tables by their titles, the paragraphs above them."""
    pieces = [piece.strip() for piece in re.split(r"\n\s*\n", report)]
    return {title.strip("*"): table for title, table in pairwise(pieces) if table.startswith("|")}


def cells(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table: the header, then the lines."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()
    ]
    return [lines[0], *lines[2:]]


def age(record: dict) -> str:
    """Say when, where, by which command and by which commit it was measured."""
    told = f"Measured on {record['date']}"
    if record["command"]:
        told += f" by `{record['command']}`"
    if record["seeds"]:
        told += ", seeds {} to {}".format(*record["seeds"])
    places = [record["machine"], record["commit"] and f"commit {record['commit']}"]
    return "; ".join([told, *filter(None, places)]) + "."


@cache
def published(name: str) -> tuple[dict[str, str], str]:
    """Return the tables of a name, and what their record says."""
    folder = DATA / name
    if not (folder / "report.md").exists():
        known = ", ".join(sorted(path.name for path in DATA.iterdir()))
        raise ValueError(f"there is no {name!r} in docs/data: {known}")
    record = json.loads((folder / "measured.json").read_bytes())
    return tables((folder / "report.md").read_text(encoding="utf-8")), age(record)


class Measured(SphinxDirective):
    """Show the tables of a report whose titles begin with the lines of the content, or all."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Parse the tables as part of the page."""
        (name,) = self.arguments
        try:
            found, told = published(name)
            wanted = [beginning(found, line, name) for line in self.content if line.strip()]
        except ValueError as error:
            raise self.error(str(error)) from None
        shown = [
            f"**{title.replace('*', chr(92) + '*')}**\n\n{unbroken(found[title])}"
            for title in wanted or found
        ]
        self.env.note_dependency(str(DATA / name / "report.md"))
        line = nodes.container(classes=["measured"])
        line += self.parse_text_to_nodes(told)
        return [*self.parse_text_to_nodes("\n\n".join(shown)), line]


def unbroken(text: str) -> str:
    """Use minus signs, and no break around ±, so that a narrow cell does not split numbers.

    Examples
    --------
    >>> unbroken("-1.5e-04 (-2 to 1) for sgd-mlmc")
    '−1.5e−04 (−2 to 1) for sgd-mlmc'
    """
    signed = re.sub(r"(?<=\de)-(?=\d)|(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)
    return signed.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def beginning(found: dict[str, str], text: str, name: str) -> str:
    """Return the only title with this beginning."""
    titles = [title for title in found if title.startswith(text.strip())]
    if len(titles) != 1:
        raise ValueError(f"{len(titles)} tables of {name!r} begin with {text!r}: {[*found]}")
    return titles[0]


def cell(text: str) -> str:
    """Return the only cell with the address ``NAME : row : column``.

    With ``NAME : title : row : column`` it is searched in one table. A row is named by its first
    cell, or by its first two with a comma between them; a title by its beginning.
    """
    name, *title, row, column = (part.strip() for part in text.split(" : "))
    found, _ = published(name)
    wanted = [beginning(found, title[0], name)] if title else list(found)
    cells_found = {
        line[head.index(column)]
        for head, *lines in (cells(found[each]) for each in wanted)
        for line in lines
        if column in head and row in (line[0], ", ".join(line[:2]))
    }
    if len(cells_found) != 1:
        raise ValueError(f"{len(cells_found)} cells of {name!r} are {row!r}, {column!r}")
    return cells_found.pop()


def first_number(text: str) -> str:
    """Return the first number of a cell, without its interval and without a plus sign.

    Examples
    --------
    >>> first_number("+0.34 (+0.22 to +0.47)"), first_number("ratio -0.57 ± 0.10")
    ('0.34', '−0.57')
    """
    found = re.search(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", text)
    if found is None:
        raise ValueError(f"there is no number in {text!r}")
    return unbroken(found[0].lstrip("+"))


class Value(SphinxRole):
    """One cell of a table, in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Find the cell; it is an error if there is none or more than one."""
        try:
            return [nodes.Text(self.of(cell(self.text)))], []
        except ValueError as error:
            return [], [self.inliner.reporter.error(str(error))]

    def of(self, found: str) -> str:
        """Return the whole cell."""
        return unbroken(found)


class Estimate(Value):
    """The first number of one cell, in a sentence."""

    def of(self, found: str) -> str:
        """Return the number without its interval."""
        return first_number(found)


def setup(app) -> dict[str, bool]:
    """Register the directive and the roles with Sphinx."""
    app.add_directive("measured", Measured)
    app.add_role("value", Value())
    app.add_role("estimate", Estimate())
    return {"parallel_read_safe": True}
