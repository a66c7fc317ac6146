"""Records of when, where and by which code something was measured.

Pages that show a result use them to tell whether the code has changed since.
"""

import ast
import hashlib
import io
import json
import os
import platform
import tokenize
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mixfree.base.files import replacing
from mixfree.reproduce.engine.report import Report, Table

__all__ = ["changed_since", "code_of", "source_of", "write_record", "write_report"]

PACKAGE = Path(__file__).parents[2]
RECORD = "measured.json"


def write_record(
    folder: Path,
    start: Path,
    command: str,
    seeds: Iterable[int] = (),
    begun: bool = False,
) -> None:
    """Write ``measured.json``: command, date, machine, and a digest of every source file used.

    Parameters
    ----------
    start
        The source file that was run.
    begun
        Whether some results exist already. If their code differs or is unknown, no source is
        recorded.
    """
    path = folder / RECORD
    source: dict[str, str] | None = source_of(start)
    if begun and (not path.exists() or json.loads(path.read_bytes())["source"] != source):
        source = None
    numbers = list(seeds)
    about = {
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": _machine(),
        "seeds": [numbers[0], numbers[-1]] if numbers else None,
        "source": source,
    }
    with replacing(path) as file:
        file.write((json.dumps(about, indent=1) + "\n").encode())


def write_report(
    folder: Path, start: Path, command: str, tables: Iterable[Table], seeds: Iterable[int] = ()
) -> None:
    """Write tables measured by a script, with their record, as for an experiment."""
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder, start, command, seeds)
    with replacing(folder / "report.md") as file:
        file.write(Report(list(tables), {}).markdown().encode())


def changed_since(record: dict[str, Any]) -> list[str] | None:
    """Return the files of the package that have changed since; None if unknown.

    Examples
    --------
    >>> changed_since({"source": source_of(PACKAGE / "steps" / "adagrad.py")})
    []
    >>> changed_since({"source": {"steps/adagrad.py": "another"}})
    ['steps/adagrad.py']
    """
    if record["source"] is None:
        return None
    return sorted(
        name
        for name, digest in record["source"].items()
        if not (PACKAGE / name).exists() or _digest(PACKAGE / name) != digest
    )


def source_of(start: Path) -> dict[str, str]:
    """Return a digest of every file of the package that ``start`` imports, directly or indirectly.

    The imports of an ``__init__`` are followed, but it has no digest, being a list of names.

    Examples
    --------
    >>> found = source_of(PACKAGE / "steps" / "adagrad.py")
    >>> "steps/adagrad.py" in found, "torch/mag.py" in found
    (True, False)
    """
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path)
    files = sorted(path for path in found if path.is_relative_to(PACKAGE))
    return {
        path.relative_to(PACKAGE).as_posix(): _digest(path)
        for path in files
        if path.name != "__init__.py"
    }


def code_of(text: str) -> str:
    r"""Return the text of a module without comments, docstrings and empty lines.

    Examples
    --------
    >>> code_of("'Words.'\n\n# why\nx = 1  # and what for\n")
    'x = 1'
    """
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
    return "\n".join(line for line in lines if line.strip())


def _digest(path: Path) -> str:
    return hashlib.sha256(code_of(path.read_text(encoding="utf-8")).encode()).hexdigest()[:12]


def _imported(path: Path) -> list[Path]:
    """Return the files that a file imports from the package or, if a script, from beside it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    places = (PACKAGE.parent.joinpath(*name.split(".")) for name in names)
    files = (file for at in places for file in (at.with_suffix(".py"), at / "__init__.py"))
    inside = [file for file in files if file.is_relative_to(PACKAGE) and file.exists()]
    if path.is_relative_to(PACKAGE):
        return inside
    beside = (path.parent / f"{name}.py" for name in names)
    return inside + [file for file in beside if file.exists()]


def _machine() -> str:
    """Describe the processor, cores, system and version of Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        named = []
    name = named[0] if named else platform.machine()
    return (
        f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )
