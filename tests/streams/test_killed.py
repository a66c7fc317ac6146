"""A fit killed at random moments and resumed."""

from pathlib import Path

import pytest

from mixfree.streams import StreamFit
from tests.helpers import run_python
from tests.streams.data import table, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--loss", "huber", "--set", "memory=2000"],
        ["--method", "ladder", "--set", "scale=running"],
    ],
    ids=["exact", "huber", "ladder"],
)
def test_killed_twenty_times(tmp_path, options):
    data = write(table(40_000), tmp_path / "data.parquet")
    script = Path(__file__).with_name("killing.py")
    done = run_python(script, data, tmp_path / "m", 20, *options)
    assert done.returncode == 0, done.stderr
    whole, resumed = (StreamFit.load(tmp_path / name) for name in ("m.whole", "m"))
    assert resumed.complete
    assert resumed.read == whole.read == resumed.used == 40_000
    assert resumed.learner.weights.tobytes() == whole.learner.weights.tobytes()
    if not options:
        ends = [each.learner.inference.conf_int().tobytes() for each in (resumed, whole)]
        assert ends[0] == ends[1]
        assert resumed.running_loss == whole.running_loss
    assert resumed.reservoir.rows.tobytes() == whole.reservoir.rows.tobytes()
