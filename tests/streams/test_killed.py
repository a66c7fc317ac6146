"""A fit killed at random moments and resumed."""

import os
import subprocess
import sys
from pathlib import Path

from mixfree.streams import StreamFit
from tests.streams.data import table, write


def test_killed_twenty_times(tmp_path):
    data = write(table(40_000), tmp_path / "data.parquet")
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, script, data, tmp_path / "m", "20"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    whole, resumed = (StreamFit.load(tmp_path / name) for name in ("m.whole", "m"))
    assert resumed.complete
    assert resumed.read == whole.read == resumed.used == 40_000
    assert resumed.learner.weights.tobytes() == whole.learner.weights.tobytes()
    assert resumed.reservoir.rows.tobytes() == whole.reservoir.rows.tobytes()
