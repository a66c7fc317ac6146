"""Python arguments in the library's messages, rewritten as flags of a command.

The library names arguments as in Python: in backquotes, or as the first word of "… must be …".
"""

import ast
import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import typer


def in_flags(text: str, command: Callable[..., Any]) -> str:
    """Return ``text`` with the arguments that it names written as flags of ``command``.

    Examples
    --------
    >>> from mixfree.cli.fit import fit
    >>> in_flags("`missing='skip'` leaves out such rows", fit)
    '--missing skip leaves out such rows'
    >>> in_flags("try `method='mag', options={'levels': 9, 'mixing_time': 5}`", fit)
    'try --method mag --set levels=9 --set mixing_time=5'
    >>> in_flags("l2 must be at least 0", fit)
    '--l2 must be at least 0'
    """
    flags = _flags_of(command)
    text = re.sub(r"^(\w+)(?= must )", lambda name: flags.get(name[1], name[1]), text)
    return re.sub(r"`([^`]+)`", lambda code: _typed(code[1], flags), text)


def command_line(
    command: Callable[..., Any], files: Iterable[str], arguments: Mapping[str, Any]
) -> str:
    """Return ``command`` with files and arguments as it is typed in a shell.

    Examples
    --------
    >>> from mixfree.cli.fit import fit
    >>> print(command_line(fit, ["my log.csv"], {"target": "load", "exclude": ["a", "b,c"]}))
    mixfree fit 'my log.csv' --target load --leave-out 'a,"b,c"'
    """
    named = (f"./{file}" if file.startswith("-") and file != "-" else file for file in files)
    typed = (_flag(name, value, _flags_of(command)) for name, value in arguments.items())
    return " ".join([f"mixfree {command.__name__}", *map(shlex.quote, named), *typed])


@cache
def _flags_of(command: Callable[..., Any]) -> Mapping[str, str]:
    """Return the flag of each option of a command."""
    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    options = typer.main.get_command(alone).params
    return {str(each.name): max(each.opts, key=len) for each in options if each.opts[0][0] == "-"}


def _typed(code: str, flags: Mapping[str, str]) -> str:
    """Return the arguments of a Python call as they would be typed after the command."""
    if code.isidentifier():
        return _flag(code, ..., flags)
    try:
        call: Any = ast.parse(f"call({code.replace('…', '...')})", mode="eval").body
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError):
        return code
    return " ".join(_flag(name, value, flags) for name, value in given.items()) or code


def _flag(name: str, value: Any, flags: Mapping[str, str]) -> str:
    """Return one argument as a flag, or by ``--set`` if the command has no flag for it."""
    flag = flags.get(name)
    if flag is None:
        given = name if value is ... else f"{name}={'none' if value is None else _text(value)}"
        return f"{flags['options']} {given}" if "options" in flags else given
    if value is None or value is False or value in ((), [], {}):
        return f"no {flag}"
    if value is ... or value is True:
        return flag
    if name == "options":
        return " ".join(_flag(each, its, flags) for each, its in value.items())
    if isinstance(value, dict):
        return " ".join(f"{flag} {shlex.quote(_of_column(*each))}" for each in value.items())
    return f"{flag} {_text(value)}"


def _of_column(column: str, texts: str | Iterable[str]) -> str:
    if set(column) & set('=,"'):
        column = '"' + column.replace('"', '""') + '"'
    return f"{column}={texts if isinstance(texts, str) else _listed(texts)}"


def _listed(names: Iterable[Any]) -> str:
    """Join names by commas, with quotes around those that need them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return shlex.quote(_listed(value))
    return shlex.quote(value if isinstance(value, str) else json.dumps(value))
