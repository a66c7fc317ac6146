"""Notebooks on the site: Python files with ``# %%`` cells, run while the site is built.

Editors and Jupyter (with jupytext) open such files as notebooks. Here a file becomes a page with
the output and figures of its cells, and an ``.ipynb`` file. A failing cell fails the build.
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
    r"""Return pairs of a kind, ``markdown`` or ``code``, and the text of the cell.

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
    """Run a cell; its printed text, with the value of its last line, and its figures as PNG."""
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
    """Return the kind, text, printed text and figures (as data addresses) of every cell."""
    names: dict = {"__name__": "__main__"}
    found = []
    for kind, body in cells_of(text):
        printed, pictures = run_cell(body, names, title) if kind == "code" else ("", [])
        data = [f"data:image/png;base64,{base64.b64encode(each).decode()}" for each in pictures]
        found.append((kind, body, printed, data))
    return found


def page(text: str, title: str) -> str:
    """Run a notebook from top to bottom and return it as Markdown."""
    parts = []
    for kind, body, printed, pictures in run(text, title):
        parts.append(body if kind == "markdown" else f"```python\n{body}\n```")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
        parts += [f"![Figure of the cell above]({address})" for address in pictures]
    link = f'<a href="{title}.ipynb" download>Download this page as a notebook</a>'
    parts.append(f"```{{raw}} html\n<p>{link}</p>\n```")
    return "\n\n".join(parts) + "\n"


def ipynb(text: str) -> str:
    """Return the notebook in Jupyter's format, without output."""
    cells = []
    for number, (kind, body) in enumerate(cells_of(text)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = body.splitlines(keepends=True)
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps({"cells": cells, **about}, indent=1) + "\n"


class Drawn(SphinxDirective):
    """Show the first figure of a notebook on another page; the content is its caption."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run the notebook, unless it has been run for its own page."""
        (name,) = self.arguments
        text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
        address = next(pictures[0] for *_, pictures in run(text, name) if pictures)
        told = " ".join(self.content)
        image = nodes.image(uri=address, alt=told)
        return [image, *self.parse_text_to_nodes(f"{told} [The notebook](/notebooks/{name}.py)")]


class Pictured(SphinxDirective):
    """Show the figure at the end of a file of ``pictures``; the content is its caption."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run the file and embed its figure."""
        (name,) = self.arguments
        path = PICTURES / f"{name}.py"
        self.env.note_dependency(str(path))
        _, (picture,) = run_cell(path.read_text(encoding="utf-8"), {"__name__": name}, name)
        told = " ".join(self.content)
        address = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        return [nodes.image(uri=address, alt=told), *self.parse_text_to_nodes(told)]


class Percent(MystParser):
    """A parser for notebooks: runs their cells, then parses Markdown."""

    supported = ("percent",)

    def parse(self, inputstring: str, document) -> None:
        """Run the notebook and parse the page."""
        super().parse(page(inputstring, Path(document["source"]).stem), document)


def setup(app) -> dict[str, bool]:
    """Register ``.py`` files as pages, and the two directives."""

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
