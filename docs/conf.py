"""Configuration of the documentation site: ``make docs``.

Sphinx was preferred to MkDocs with Material, whose end of life has been announced.
"""

import importlib
import inspect
import os
import re
import runpy
import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import NumpyDocstring

import mixfree

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the extension percent

# Programs that run while the site is built must print the same everywhere.
os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}

# Commands on pages run in this folder, on this data.
(HERE / "made").mkdir(exist_ok=True)
if not (HERE / "made" / "heating.csv").exists():
    example = runpy.run_path(str(HERE.parent / "examples" / "report_heating.py"))
    example["write_log"](HERE / "made" / "heating.csv")

project = "mixfree"
author = "the mixfree developers"
release = version = mixfree.__version__

extensions = [
    "percent",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinxcontrib.programoutput",
]
# These files are no pages; those in notebooks/ are.
exclude_patterns = ["*.py", "made", "pictures"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what an argument is
autodoc_preserve_defaults = True
napoleon_attr_annotations = False
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # attributes of the same name in several classes

html_theme = "furo"
html_title = "mixfree"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"loading_method": "defer"})]
html_math_renderer = "mathml"


# Napoleon would take the words before a colon in the docstring of a property for its type.
NumpyDocstring._consume_inline_attribute = lambda self: (
    "",
    NumpyDocstring(self._consume_to_end(), self._config).lines(),
)


def check_docstrings(app):
    """Check that public names of the reference and methods of public classes have docstrings."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (HERE / "reference").glob("*.md"))
    for module in map(importlib.import_module, re.findall(r"automodule:: (\S+)", pages)):
        for name, value in ((name, getattr(module, name)) for name in module.__all__):
            members = vars(value) if inspect.isclass(value) else {}
            public = [getattr(value, each) for each in members if not each.startswith("_")]
            for each in (value, *filter(inspect.isroutine, public)):
                if callable(each) and not inspect.getdoc(each):
                    raise ExtensionError(f"no docstring: {each!r}, of {module.__name__}.{name}")


def setup(app):
    """Render formulas as MathML, leave out what scikit-learn adds to estimators, name tables."""

    def math(as_block):
        def visit(self, node):
            # Brackets in MathML stretch by themselves.
            formula = re.sub(r"\\[bB]ig(?=[^a-z])", "", node.astext())
            # docutils sets the index of a letter with an accent below the letter.
            formula = re.sub(r"(\\(?:bar|hat|tilde) \w)_", r"\1{}_", formula)
            self.body.append(tex2mathml(formula, as_block=as_block))
            raise SkipNode

        return visit

    def skip(app, what, name, member, skipped, options):
        return skipped or (name.startswith("set_") and name.endswith("_request"))

    def title(app, name, source):
        if name.startswith("data/"):
            source[0] = (
                f"---\norphan: true\n---\n# All tables of {Path(name).parent.name}\n\n{source[0]}"
            )

    app.connect("source-read", title)
    app.add_html_math_renderer("mathml", (math(False), None), (math(True), None))
    app.connect("autodoc-skip-member", skip)
    app.connect("builder-inited", check_docstrings)
