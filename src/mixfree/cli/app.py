"""The commands of ``mixfree``, a line each."""

from mixfree.base.extras import require
from mixfree.cli.chain import chain
from mixfree.cli.demo import demo
from mixfree.cli.diagnose import diagnose
from mixfree.cli.fit import fit
from mixfree.cli.inspect import inspect
from mixfree.cli.predict import predict
from mixfree.cli.reproduce import reproduce
from mixfree.cli.td import td
from mixfree.cli.version import options, version

typer = require("typer")

app = typer.Typer(
    name="mixfree",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.callback()(options)
app.command()(chain)
app.command()(demo)
app.command()(diagnose)
app.command()(fit)
app.command()(inspect)
app.command()(predict)
app.command()(reproduce)
app.command()(td)
app.command()(version)
