"""Numbers on pages: ``python tools/publish.py [results/fig1 …]``.

For each folder written by ``mixfree reproduce`` or ``benchmarks/run.py``, copy the tables and the
record of the measurement to ``docs/data/NAME``, and the figures that a page shows to
``docs/figures``. Then write all tables and numbers into the pages again.

A page names a table, or all those of a report, in a comment, and the tables follow it up to the
next comment. Lines and columns can be selected, since ``docs/data`` has the whole table::

    <!-- tables of fig1
    The beginning of a title
    The beginning of another title : line; another line : column; another column
    -->
    <!-- end -->

A number in a sentence is one cell, ``<!-- cell NAME : row : column -->0.34<!-- end -->``, or the
first number in it (``number`` instead of ``cell``). ``NAME : title : row : column`` searches one
table. A row is named by its first cell, or by its first two with a comma between them, and ``*``
stands for any ending. The first column is always shown.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"(<!-- (tables of|cell|number) ([^>]+?)\s*-->)(.*?)<!-- end -->", re.DOTALL)


class Published:
    """The tables in ``docs/data``, and where and when they were measured."""

    def __init__(self, data: Path = DOCS / "data"):
        self.data = data

    def tables(self, name: str) -> dict[str, str]:
        """Return Markdown tables by their titles, the paragraphs above them."""
        path = self.data / name / "report.md"
        if not path.exists():
            known = ", ".join(sorted(folder.name for folder in self.data.iterdir()))
            raise ValueError(f"there is no {name!r} in docs/data: {known}")
        pieces = [each.strip() for each in re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))]
        return {title.strip("*"): table for title, table in pairwise(pieces) if table[0] == "|"}

    def block(self, text: str) -> str:
        """Return the tables of ``NAME`` whose titles begin with the lines after it, or all."""
        name, *lines = text.splitlines()
        found = self.tables(name)
        shown = []
        for line in lines or found:
            start, *selected = re.split(r"\s:\s", line) if lines else [line]
            title = beginning(found, start, name)
            table = unbroken(selection(found[title], *selected))
            shown.append(f"**{title.replace('*', chr(92) + '*')}**\n\n{table}")
        record = json.loads((self.data / name / "measured.json").read_bytes())
        return "\n\n".join(["", *shown, f"<small>{age(record, name)}</small>\n"])

    def cell(self, text: str) -> str:
        """Return the only cell with an address."""
        name, *title, row, column = (part.strip() for part in re.split(r"\s:\s", text))
        found = self.tables(name)
        wanted = [beginning(found, title[0], name)] if title else list(found)
        cells_found = {
            line[head.index(column)]
            for head, *lines in (cells(found[each]) for each in wanted)
            for line in lines
            if column in head and is_named(line, row)
        }
        if len(cells_found) != 1:
            raise ValueError(f"{len(cells_found)} cells of {name!r} are {row!r}, {column!r}")
        return unbroken(cells_found.pop())

    def number(self, text: str) -> str:
        """Return the first number of a cell, without its interval and without a plus sign."""
        found = re.search(r"[-+−]?\d[\d,]*(\.\d+)?(e[-+−]?\d+)?", self.cell(text))
        if found is None:
            raise ValueError(f"there is no number in {text!r}")
        return found[0].lstrip("+")

    def written(self, page: str) -> str:
        """Return a page with the numbers that its comments name."""
        kinds: dict[str, Callable[[str], str]] = {
            "tables of": self.block,
            "cell": self.cell,
            "number": self.number,
        }
        return BLOCK.sub(lambda each: f"{each[1]}{kinds[each[2]](each[3])}<!-- end -->", page)


def cells(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table: the header, then the lines."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()
    ]
    return [lines[0], *lines[2:]]


def is_named(line: list[str], row: str) -> bool:
    """Whether the first cell of a line, or the first two, are these words; ``*`` is any ending."""
    wanted, names = " ".join(row.split()), (line[0], ", ".join(line[:2]))
    return wanted in names or (wanted[-1:] == "*" and line[0].startswith(wanted[:-1]))


def selection(table: str, rows: str = "*", columns: str = "*") -> str:
    """Return some lines and columns of a Markdown table.

    Examples
    --------
    >>> print(selection("| n | n² | n³ |\\n|--|--|--|\\n| 2 | 4 | 8 |\\n| 3 | 9 | 27 |", "3", "n³"))
    | n | n³ |
    |:--|--:|
    | 3 | 27 |
    """
    if rows == columns == "*":
        return table
    head, *lines = cells(table)
    named = [row.strip() for row in rows.split(";")]
    wanted = [column.strip() for column in columns.split(";")]
    kept = [line for line in lines if any(is_named(line, row) for row in named)]
    missing = [row for row in named if not any(is_named(line, row) for line in kept)]
    missing += [column for column in wanted if columns != "*" and column not in head]
    if missing:
        raise ValueError(f"the table has no {', '.join(missing)}: {head}")
    at = [i for i, name in enumerate(head) if i == 0 or columns == "*" or name in wanted]
    rule = [":--"] + ["--:"] * (len(at) - 1)
    shown = [[head[i] for i in at], *([line[i] for i in at] for line in kept)]
    written = [f"| {' | '.join(line)} |" for line in shown]
    return "\n".join([written[0], f"|{'|'.join(rule)}|", *written[1:]])


def beginning(found: dict[str, str], text: str, name: str) -> str:
    """Return the only title with this beginning."""
    titles = [title for title in found if title.startswith(text.strip())]
    if len(titles) != 1:
        raise ValueError(f"{len(titles)} tables of {name!r} begin with {text!r}: {[*found]}")
    return titles[0]


def unbroken(text: str) -> str:
    """Use minus signs, and no break around ±, so that a narrow cell does not split numbers.

    Examples
    --------
    >>> unbroken("-1.5e-04 (-2 to 1) for sgd-mlmc")
    '−1.5e−04 (−2 to 1) for sgd-mlmc'
    """
    signed = re.sub(r"(?<=\de)-(?=\d)|(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text)
    return signed.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def age(record: dict, name: str) -> str:
    """Say where the whole tables are, and when and by which command they were measured."""
    told = f"[All tables](data/{name}/report.md)"
    if record["command"]:
        told += f" of `{record['command'].split(' --')[0]}`"
    told += f", {record['date']}"
    return told + (", seeds {} to {}".format(*record["seeds"]) if record["seeds"] else "")


def publish(folder: Path, docs: Path = DOCS) -> list[Path]:
    """Copy the tables, the record and the figures; return the files written."""
    target = docs / "data" / folder.name
    if not (folder / "report.md").exists():
        raise FileNotFoundError(f"{folder / 'report.md'} does not exist: finish the run first")
    target.mkdir(parents=True, exist_ok=True)
    written = [shutil.copy(folder / name, target) for name in ("report.md", "measured.json")]
    pages = "".join(page.read_text(encoding="utf-8") for page in docs.rglob("*.md"))
    for figure in sorted(folder.glob("*.png")):
        if f"figures/{figure.name}" in pages:
            written.append(shutil.copyfile(figure, docs / "figures" / figure.name))
    return written


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for path in publish(Path(argument)):
            print(path)
    for page in sorted({*DOCS.rglob("*.md")} - {*(DOCS / "data").rglob("*.md")}):
        before = page.read_text(encoding="utf-8")
        if (after := Published().written(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(page)
