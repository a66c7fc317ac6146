"""Damaged and hostile files are answered, or refused in one sentence with nothing changed.

``INPUTS=100000 pytest tests/streams/test_damaged_files.py`` tries more of them.
"""

import hashlib
import json
import os
import struct

import numpy as np
import pytest

from mixfree.streams import Source, StreamFit, find_files, write_predictions
from mixfree.streams.report.facts import Facts
from mixfree.streams.report.text import lines
from tests.streams.data import fitted, table, write

INPUTS = int(os.environ.get("INPUTS", "150"))
WORDS = (b",", b"\n", b'"', b"\0", b"\xff", b"nan", b"1e999", b"{", b"[" * 3000, b"null", b"-")
ODD = (None, True, -1, 2**63, 1e300, "", "x", [], {}, {"$array": 0}, {"$float": "7"}, {"$x": 1})


def changed_bytes(data, rng):
    """Bytes with a few of them changed, removed, repeated or replaced by a word."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(data) + 1))
        end = at + int(rng.integers(1, 65))
        kind = rng.integers(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at:at] = data[at:end]
        else:
            data[at:end] = b"" if kind == 2 else WORDS[rng.integers(len(WORDS))]
    return bytes(data)


def changed_tree(tree, rng):
    """A tree of plain values with one place removed or replaced by something odd."""
    places = []

    def walk(value):
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(tree)
    holder, key = places[rng.integers(len(places))]
    if rng.integers(4):
        holder[key] = ODD[rng.integers(len(ODD))]
    else:
        del holder[key]
    return tree


@pytest.fixture(scope="module", params=["exact", "mag"])
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    path = write(table(400).slice(0, 300), folder / "d.csv")
    fitted(path, "load", loss="squared", parameters={"method": request.param}).save(folder / "m")
    write(table(400), path)  # the file has grown
    return (folder / "m").read_bytes(), path


def outcome(action):
    """Whether an action was taken or refused; any other error is the test's failure."""
    try:
        action()
    except (ValueError, OSError) as error:  # damaged compression is an OSError
        assert str(error).strip() and "\n" not in str(error).strip(), repr(error)
        return "refused"
    return "taken"


def test_changed_model_files(model, tmp_path):
    """A header that promises other arrays, with a right checksum, must not crash or be believed."""
    data, path = model
    length = struct.unpack_from("<Q", data, 12)[0]
    outcomes = set()

    def use():
        fit = StreamFit.load(tmp_path / "m")
        list(lines(Facts(fit)))
        source = Source(find_files([path]))
        fit.resume(source, fit.plan)
        fit.run(source.pieces())

    for number in range(INPUTS):
        rng = np.random.default_rng(number)
        found = changed_bytes(data, rng) if number else data
        if number % 4:  # with a right checksum
            header = json.dumps(changed_tree(json.loads(data[20 : 20 + length]), rng)).encode()
            body = data[:12] + struct.pack("<Q", len(header)) + header + data[20 + length : -32]
            found = body + hashlib.sha256(body).digest()
        (tmp_path / "m").write_bytes(found)
        with np.errstate(all="ignore"):
            outcomes.add(outcome(use))
    assert outcomes == {"taken", "refused"}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_changed_data_files(ending, tmp_path):
    """A byte that breaks a quotation, a compression or a batch must not end the process."""
    path, outcomes = tmp_path / f"d.{ending}", set()
    write(table(60), path)
    good = path.read_bytes()

    def use():
        fit = fitted(path, "load", loss="squared")
        write_predictions(fit, Source(find_files([str(path)])), tmp_path / "p.csv")

    for number in range(INPUTS // 5):
        path.write_bytes(changed_bytes(good, np.random.default_rng(number)))
        outcomes.add(outcome(use))
    assert "refused" in outcomes
