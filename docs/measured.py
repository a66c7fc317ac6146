"""Numbers on pages: ``{measured}`` shows tables that a command has written, and how old they are.

``docs/data/NAME`` holds ``report.md``, the tables, and ``measured.json``, when, where and by which
code they were measured; ``tools/publish.py`` puts them there. A name or a title that is not there
fails the build.
"""

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

from mixfree.reproduce.engine.provenance import changed_since

DATA = Path(__file__).parent / "data"


def tables(report: str) -> dict[str, str]:
    """Markdown tables by the paragraphs above them, their titles."""
    pieces = [piece.strip() for piece in re.split(r"\n\s*\n", report)]
    return {title.strip("*"): table for title, table in pairwise(pieces) if table.startswith("|")}


def cells(table: str) -> list[list[str]]:
    """The head and the lines of a Markdown table."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()
    ]
    return [lines[0], *lines[2:]]


def age(record: dict) -> str:
    """When and where it was measured, and whether the code has changed since."""
    told = f"Measured on {record['date']}"
    if record["command"]:
        told += f" by `{record['command']}`"
    if record["seeds"]:
        told += ", seeds {} to {}".format(*record["seeds"])
    told += f"; {record['machine']}." if record["machine"] else "."
    changed = changed_since(record)
    if changed is None:
        return f"{told} By which state of the code is not recorded."
    if not changed:
        return f"{told} The code measured has not changed since."
    others = f" and {len(changed) - 1} other files" if len(changed) > 1 else ""
    return f"{told} **Older than the code**: `{changed[0]}`{others} changed since."


@cache
def published(name: str) -> tuple[dict[str, str], str]:
    """The tables of that name and their age."""
    folder = DATA / name
    if not (folder / "report.md").exists():
        known = ", ".join(sorted(path.name for path in DATA.iterdir()))
        raise ValueError(f"there is no {name!r} in docs/data: {known}")
    record = json.loads((folder / "measured.json").read_bytes())
    return tables((folder / "report.md").read_text(encoding="utf-8")), age(record)


class Measured(SphinxDirective):
    """Show tables of a report, those whose titles begin with the lines of the content, or all."""

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
        shown = [f"**{title}**\n\n{found[title]}" for title in wanted or found]
        shown = [text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}") for text in shown]
        self.env.note_reread()  # the code may have changed, though the page has not
        line = nodes.container(classes=["measured"])
        line += self.parse_text_to_nodes(told)
        return [*self.parse_text_to_nodes("\n\n".join(shown)), line]


def beginning(found: dict[str, str], text: str, name: str) -> str:
    """The one title that begins so."""
    titles = [title for title in found if title.startswith(text.strip())]
    if len(titles) != 1:
        raise ValueError(f"{len(titles)} tables of {name!r} begin with {text!r}: {[*found]}")
    return titles[0]


class Value(SphinxRole):
    """One cell in a sentence: ``NAME: first cell of its line: head of its column``."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Find the cell, which must be the only one."""
        name, row, column = (part.strip() for part in self.text.split(" : "))
        found = {
            line[head.index(column)]
            for head, *lines in map(cells, published(name)[0].values())
            for line in lines
            if column in head and line[0] == row
        }
        if len(found) != 1:
            message = f"{len(found)} cells of {name!r} are {row!r}, {column!r}"
            return [], [self.inliner.reporter.error(message)]
        return [nodes.Text(found.pop())], []


def setup(app) -> dict[str, bool]:
    """Make both known to Sphinx."""
    app.add_directive("measured", Measured)
    app.add_role("value", Value())
    return {"parallel_read_safe": True}
