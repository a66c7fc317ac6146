"""The report of a fit as a self-contained HTML page."""

import os
import platform
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np

import mixfree
from mixfree.base.extras import require
from mixfree.base.files import replacing
from mixfree.base.terminal import literal
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.report.facts import Facts, check_something_learnt
from mixfree.streams.report.figures import course, effects, figures, shortened
from mixfree.streams.report.text import exactness

MARK = b'content="mixfree report"'  # in the head of every page
LISTED = 300  # most columns, weights or files in a table
UNBROKEN = r"(?<!\S)--\w[\w-]*|&lt; [.\d]+|\d[.\d]*e-\d+"
Words = Callable[[str], str]


def write_page(
    fit: StreamFit, path: str | os.PathLike[str], words: Words = str, command: str | None = None
) -> int:
    """Write the report of a fit as a self-contained HTML page, atomically; return its size.

    Parameters
    ----------
    fit, path
        A fit from a model file or just made, and the HTML file of at most about 2 MB.
    words
        Rewrites sentences that name arguments, for example with flags of the command line.
    command
        Shell command that reproduces the model.
    """
    content = page(fit, words, command).encode()
    with replacing(path) as file:
        file.write(content)
    return len(content)


def page(fit: StreamFit, words: Words = str, command: str | None = None) -> str:
    """Return the page of :func:`write_page`, which needs no network."""
    check_something_learnt(fit)
    facts = Facts(fit)
    shown: Any = {"course": course(fit), "effects": effects(facts)}
    markup = require("markupsafe").Markup
    script, parts = require("bokeh.embed").components(figures(facts, **shown))
    resources = require("bokeh.resources").Resources(mode="inline", components=["bokeh"])
    found: str = _template(words).render(
        facts=facts,
        fit=fit,
        minimised=[*exactness(fit.model.learner)],
        target=shortened(fit.encoder.target),
        **shown,
        command=command,
        versions=(mixfree.__version__, np.__version__, platform.python_version()),
        figures={name: markup(part) for name, part in parts.items()},
        library=markup(resources.render_js()),
        script=markup(script),
        listed=LISTED,
    )
    return found


def _template(words: Words) -> Any:
    """Return the template of the page, which escapes all texts that the data may contain."""
    jinja2 = require("jinja2")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: literal(value) if type(value) is str else value,
    )
    safe = require("markupsafe")

    def typed(text: str, most: int = 10_000) -> Any:
        """Escape a text, without line breaks at the hyphens of flags and exponents."""
        text = str(safe.escape(shortened(words(text), most)))
        return safe.Markup(re.sub(UNBROKEN, r"<span>\g<0></span>", text))

    environment.filters |= {"typed": typed, "short": shortened}
    text = files("mixfree.streams.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(text)
