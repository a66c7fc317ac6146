"""Notebooks on the site: Python files with ``# %%`` cells are run while it is built.

Editors and Jupyter (by jupytext) open such files as notebooks. Here a file becomes a page with what
its cells print, return and draw, and an ``.ipynb`` beside it. A cell that fails, fails the build.
"""

import ast
import base64
import io
import json
import re
import warnings
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.util.docutils import SphinxDirective

NOTEBOOKS = Path(__file__).parent / "notebooks"
PICTURES = Path(__file__).parent / "pictures"
BEGINNING = re.compile(r"^# %%(.*)\n", re.MULTILINE)


def cells_of(text: str) -> list[tuple[str, str]]:
    r"""Pairs of a kind, ``markdown`` or ``code``, and the text of the cell.

    Examples
    --------
    >>> cells_of("# %% [markdown]\n# Words.\n\n# %%\nx = 1\n")
    [('markdown', 'Words.'), ('code', 'x = 1')]
    """
    _, *pieces = BEGINNING.split(text)
    found = []
    for mark, body in zip(pieces[::2], pieces[1::2], strict=True):
        if "[markdown]" in mark:
            found.append(("markdown", re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)))
        else:
            found.append(("code", body.strip()))
    return found


def run_cell(code: str, names: dict, title: str) -> tuple[str, list[bytes]]:
    """What the cell prints, with the value of its last line, and its figures as PNG."""
    tree = ast.parse(code, title)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, figures = io.StringIO(), []
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(tree, title, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), title, "eval"), names)
            if hasattr(value, "savefig"):
                figures.append(value)
            elif value is not None:
                print(value)
    pictures = []
    for figure in (*map(plt.figure, plt.get_fignums()), *figures):
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=110, bbox_inches="tight")
        pictures.append(drawn.getvalue())
    plt.close("all")
    return printed.getvalue(), pictures


@cache
def run(text: str, title: str) -> list[tuple[str, str, str, list[str]]]:
    """Kind, text, what was printed and the figures, as addresses, of every cell."""
    names: dict = {"__name__": "__main__"}
    found = []
    for kind, body in cells_of(text):
        printed, pictures = run_cell(body, names, title) if kind == "code" else ("", [])
        data = [f"data:image/png;base64,{base64.b64encode(each).decode()}" for each in pictures]
        found.append((kind, body, printed, data))
    return found


def page(text: str, title: str) -> str:
    """The notebook as Markdown, run from top to bottom."""
    parts = []
    for kind, body, printed, pictures in run(text, title):
        parts.append(body if kind == "markdown" else f"```python\n{body}\n```")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
        parts += [f"![What the cell above draws]({address})" for address in pictures]
    link = f'<a href="{title}.ipynb" download>Download this page as a notebook</a>'
    parts.append(f"```{{raw}} html\n<p>{link}</p>\n```")
    return "\n\n".join(parts) + "\n"


def ipynb(text: str) -> str:
    """The notebook in Jupyter's format, without what its cells print."""
    cells = []
    for number, (kind, body) in enumerate(cells_of(text)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = body.splitlines(keepends=True)
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps({"cells": cells, **about}, indent=1) + "\n"


class Drawn(SphinxDirective):
    """The first picture of a notebook, on another page; the content says what it shows."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run the notebook unless its page was made already."""
        (name,) = self.arguments
        text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
        address = next(pictures[0] for *_, pictures in run(text, name) if pictures)
        told = " ".join(self.content)
        image = nodes.image(uri=address, alt=told)
        return [image, *self.parse_text_to_nodes(f"{told} [The notebook](/notebooks/{name}.py)")]


class Pictured(SphinxDirective):
    """The figure that a file of ``pictures`` ends with; the content says what it shows."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        (name,) = self.arguments
        path = PICTURES / f"{name}.py"
        self.env.note_dependency(str(path))
        _, (picture,) = run_cell(path.read_text(encoding="utf-8"), {"__name__": name}, name)
        told = " ".join(self.content)
        address = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        return [nodes.image(uri=address, alt=told), *self.parse_text_to_nodes(told)]


class Percent(MystParser):
    """The parser of Markdown, after the cells have been run."""

    supported = ("percent",)

    def parse(self, inputstring: str, document) -> None:
        """Run the notebook and parse the page."""
        super().parse(page(inputstring, Path(document["source"]).stem), document)


def setup(app) -> dict[str, bool]:
    """Make files that end with ``.py`` pages."""

    def download(app, exception) -> None:
        for path in NOTEBOOKS.glob("*.py"):
            target = Path(app.outdir) / "notebooks" / f"{path.stem}.ipynb"
            target.write_text(ipynb(path.read_text(encoding="utf-8")), encoding="utf-8")

    plt.switch_backend("agg")
    app.connect("build-finished", download)
    app.add_source_suffix(".py", "percent")
    app.add_source_parser(Percent)
    app.add_directive("drawn", Drawn)
    app.add_directive("pictured", Pictured)
    return {"parallel_read_safe": True}
