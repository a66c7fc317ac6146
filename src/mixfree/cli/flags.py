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

__all__ = ["command_line", "in_flags"]


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
    text = re.sub(r"^(\w+)(?= must )", lambda name: _flags_of(command).get(name[1], name[1]), text)
    return re.sub(r"`([^`]+)`", lambda code: _typed(code[1], _flags_of(command)), text)


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
    flags = _flags_of(command)
    typed = (_flag(name, value, flags) for name, value in arguments.items())
    return " ".join([f"mixfree {command.__name__}", *map(shlex.quote, named), *typed])


@cache
def _flags_of(command: Callable[..., Any]) -> Mapping[str, str]:
    """Return the flag of each option of a command, as ``--this`` or ``--this/--no-this``."""
    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    return {
        option.name: "/".join([max(option.opts, key=len), *option.secondary_opts])
        for option in typer.main.get_command(alone).params
        if option.param_type_name == "option"
    }


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
    if name not in flags:
        given = name if value is ... else f"{name}={'none' if value is None else _text(value)}"
        return f"{flags['options']} {given}" if "options" in flags else given
    yes, _, no = flags[name].partition("/")
    if value is None or value is False or value in ((), [], {}):
        return no or f"no {yes}"
    if value is ... or value is True:
        return yes
    if name == "options":
        return " ".join(_flag(each, its, flags) for each, its in value.items())
    if isinstance(value, dict):
        return " ".join(f"{yes} {shlex.quote(_category(*each))}" for each in value.items())
    return f"{yes} {_text(value)}"


def _category(column: str, texts: str | Iterable[str]) -> str:
    if set(column) & set('=,"'):
        column = '"' + column.replace('"', '""') + '"'
    return f"{column}={texts if isinstance(texts, str) else _listed(texts)}"


def _listed(names: Iterable[str]) -> str:
    """Join names by commas, with quotes around those that need them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return shlex.quote(_listed(map(str, value)))
    return shlex.quote(value if isinstance(value, str) else json.dumps(value))
