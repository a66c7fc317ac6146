"""The commands of ``mixfree``."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import mixfree
from mixfree.base.terminal import complain, say
from mixfree.cli.chain import chain
from mixfree.cli.demo import demo
from mixfree.cli.fit import fit
from mixfree.cli.flags import in_flags
from mixfree.cli.inspect import inspect
from mixfree.cli.methods import known_settings, methods
from mixfree.cli.predict import predict
from mixfree.cli.report import report
from mixfree.cli.reproduce import reproduce
from mixfree.cli.td import td

COMMANDS = (chain, demo, fit, inspect, methods, predict, report, reproduce, td)
# Options of other tools, with the Python names of those of mixfree that are meant.
ELSEWHERE = {
    "alpha": "l2",
    "label": "target",
    "learning_rate": "step_scale",
    "lr": "step_scale",
}


class _Command(TyperCommand):
    """A command that suggests what to type for the options of other tools."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().make_context(*arguments, **named)
        except Exception as error:  # click's NoSuchOption, or the copy of it within typer
            name = (getattr(error, "option_name", None) or "").lstrip("-").replace("-", "_")
            name = ELSEWHERE.get(name, name)
            flags = {option.name: max(option.opts, key=len) for option in self.params}
            if name in flags:
                found = flags[name]
            elif name and "options" in flags and name in known_settings():
                found = f"{flags['options']} {name}=VALUE"
            else:
                raise
            error.possibilities = [found]  # type: ignore[attr-defined]
            raise


def _with_plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that prints its errors as one line and exits with code 2."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            command(*arguments, **named)
        except BrokenPipeError:  # the reader of the output has gone; the group ends quietly
            raise
        except (ValueError, OSError, ImportError) as error:
            if os.environ.get("MIXFREE_DEBUG"):
                raise
            complain(f"mixfree: {in_flags(_message_of(error), command)}")
            raise typer.Exit(2) from None

    return run


def _message_of(error: Exception) -> str:
    """Return the message of an error, without the system's error number."""
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | os.PathLike):
        folder = Path(error.filename).parent
        missing = f"file {error.filename}" if folder.is_dir() else f"folder {folder}"
        return f"there is no {missing}"
    if isinstance(error, OSError) and error.filename is None and error.strerror:
        return error.strerror
    return str(error)


def _print_version(asked: bool) -> None:
    if asked:
        say(mixfree.__version__)
        raise typer.Exit()


# Plain help, since importing Rich would take longer than everything else.
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    app.command(cls=_Command)(_with_plain_errors(_command))


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Learn from ordered, correlated data without knowing its mixing time."""
