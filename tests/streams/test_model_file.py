"""The model file: round trips and errors."""

import hashlib
import math
import os
import pickle
import stat

import numpy as np
import pytest

from mixfree.streams.fit import model_file as models

CONTENT = {
    "weights": np.array([1.5, -0.0, np.nan, np.inf]),
    "matrix": np.arange(6, dtype=np.int32).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float32),
    "nested": {"list": [1, 2.5, None, True, "ü"], "pair": (np.uint8([7]), -math.inf)},
    "exact": 0.1 + 0.2,
    "large": 2**80,
    "numpy": [np.int64(3), np.bool_(True), np.float32(1.5)],
}


@pytest.fixture
def path(tmp_path):
    models.save(tmp_path / "m", CONTENT)
    return tmp_path / "m"


def test_everything_comes_back(path):
    found = models.load(path)
    assert list(found) == list(CONTENT)
    for name in ("weights", "matrix", "empty"):
        assert found[name].dtype == CONTENT[name].dtype
        assert found[name].shape == CONTENT[name].shape
        assert found[name].tobytes() == CONTENT[name].tobytes()
        assert found[name].flags.writeable
    assert found["nested"]["list"] == CONTENT["nested"]["list"]
    assert found["nested"]["pair"] == CONTENT["nested"]["pair"]
    assert [type(each) for each in found["numpy"]] == [int, bool, float]
    assert found["numpy"] == CONTENT["numpy"]
    assert (found["exact"], found["large"]) == (CONTENT["exact"], CONTENT["large"])


def test_any_changed_byte_is_seen_and_any_cut(path):
    data = path.read_bytes()
    changed = np.random.default_rng(0).integers(12, len(data), 40)
    damaged = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in changed]
    for found in [*damaged, *(data[:length] for length in (0, 5, 8, 30, 60, len(data) - 1))]:
        path.write_bytes(found)
        with pytest.raises(ValueError, match=r"damaged|truncated|not a mixfree model"):
            models.load(path)


def test_foreign_files_and_versions(path, tmp_path):
    (tmp_path / "p").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="not a mixfree model file"):
        models.load(tmp_path / "p")
    data = bytearray(path.read_bytes()[:-32])
    data[8] = models.VERSION + 1
    path.write_bytes(bytes(data) + hashlib.sha256(data).digest())
    with pytest.raises(ValueError, match=f"version {models.VERSION + 1} of the model format"):
        models.load(path)


@pytest.mark.parametrize(
    "value", [{"$array": 0}, {"$tuple": [1]}, {"$float": "x", "$$a": {"$": 1}}]
)
def test_keys_of_the_format_itself_come_back_as_they_were(tmp_path, value):
    """Catches keys like those of the format that come back as an array, a tuple or an error."""
    models.save(tmp_path / "m", {"value": value})
    assert models.load(tmp_path / "m") == {"value": value}


@pytest.mark.parametrize("value", [np.array([{}]), {1: 2}, object(), {1, 2}])
def test_what_cannot_be_held_is_refused_and_nothing_written(tmp_path, value):
    with pytest.raises(ValueError, match="a model file cannot store"):
        models.save(tmp_path / "m", {"value": value})
    assert os.listdir(tmp_path) == []


def test_permissions_are_those_of_any_new_file(path, tmp_path):
    (tmp_path / "plain").touch()
    modes = [stat.S_IMODE(os.stat(each).st_mode) for each in (path, tmp_path / "plain")]
    assert modes[0] == modes[1]
