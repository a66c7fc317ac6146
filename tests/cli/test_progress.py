"""The progress of ``mixfree fit``, and the model that Ctrl-C leaves."""

import io
import re
import signal
import sys

import pytest

from mixfree.base import terminal
from mixfree.base.terminal import interrupts_wait, progress_bar
from mixfree.streams import StreamFit
from mixfree.streams.read import formats
from tests.helpers import run_command
from tests.streams.data import table, write


def test_a_bar_gives_way_to_what_it_counts(monkeypatch):
    """Catches counts and times truncated to 400000… and 0:01:…, and a progress above 100 %."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("rows", 399_975) as show:
        show(400_000, "123,982 rows per second, test-then-train loss 0.4986")
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).rsplit("rows", 1)[1]
    assert re.search(r"loss 0\.4986 .*400000/400000 \d:\d\d:\d\d", last)


def test_lines_where_there_is_no_terminal(monkeypatch, capsys):
    """Catches a log with one line per batch, or none for hours."""
    now = iter([0.0, 1.0, 31.0, 32.0, 61.5])
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(now))
    with progress_bar("starting", 50) as show:
        for done in (10, 20, 30, 60):
            show(done, f"label {done}")
    assert capsys.readouterr().err == "20 of 50: label 20\n60 of 60: label 60\n"


def test_an_interrupt_waits_for_the_end_of_a_step(ctrl_c):
    """Catches an interrupt that leaves half a step."""
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        signal.raise_signal(signal.SIGINT)
        done.append("whole")
    assert done == ["whole"]


def test_what_ignores_ctrl_c_goes_on_doing_so(ctrl_c):
    """Catches a worker that handles the Ctrl-C meant for its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_wait():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


@pytest.mark.parametrize("batches", [0, 3])
def test_ctrl_c_leaves_a_model_of_what_was_read_or_says_that_there_is_none(
    tmp_path, monkeypatch, capsys, ctrl_c, batches
):
    """Catches a model half a batch ahead of its record, or no model."""
    monkeypatch.setattr(formats, "ROWS", 300)
    path, model = write(table(), tmp_path / "d.parquet"), tmp_path / "m.mixfree"
    begin, learn, seen = StreamFit.begin, StreamFit.learn, []

    def begin_or_stop(source, plan):
        if not batches:
            signal.raise_signal(signal.SIGINT)
        return begin(source, plan)

    def stop_within(self, piece):
        seen.append(piece)
        if len(seen) == batches:
            signal.raise_signal(signal.SIGINT)
        learn(self, piece)

    monkeypatch.setattr(StreamFit, "begin", begin_or_stop)
    monkeypatch.setattr(StreamFit, "learn", stop_within)
    assert run_command("fit", path, "--target", "load", "--model", model) == 130
    said = capsys.readouterr()
    if not batches:
        assert "nothing was written" in said.err
        assert not model.exists()
        return
    fit = StreamFit.load(model)
    counts = {fit.learner.samples, fit.used, fit.read, fit.timeline.rows}
    assert counts == {sum(piece.batch.num_rows for piece in seen)}
    assert not fit.complete
    assert f"after {fit.read:,} rows, all in the model; continue with --resume" in said.out
