"""What several tests need."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mixfree as mf
from mixfree.cli import main


def make(name, start, domain=None, **options):
    """A method of the table, with a mixing time or whatever else it needs."""
    return mf.methods()[name](start, domain=domain, **{**needed(name, 6), **options})


def needed(name, mixing_time):
    """The options that a method of the table must be given."""
    required = mf.methods()[name].required
    return required | ({"mixing_time": mixing_time} if "mixing_time" in required else {})


def run(opt, samples):
    """A quadratic seen through samples; methods with a memory take what they are due."""
    for sample in samples:
        for due in opt.offer(sample):
            opt.tell(opt.x - due)
    return opt


def run_command(*arguments):
    """Run ``mixfree``; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code


def run_python(*arguments, **environment):
    """Run a new Python with the paths of this one; its output is text."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )


def flatten(state, path=""):
    """Every number and array of a state by its path."""
    if not isinstance(state, dict | list | tuple):
        yield path, state
        return
    items = sorted(state.items()) if isinstance(state, dict) else enumerate(state)
    for key, value in items:
        yield from flatten(value, f"{path}/{key}")


def assert_same_bits(one, other):
    mine, theirs = dict(flatten(one)), dict(flatten(other))
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert type(value) is type(theirs[key]), key
        if value is None or isinstance(value, str):
            assert value == theirs[key], key
            continue
        assert np.asarray(value).tobytes() == np.asarray(theirs[key]).tobytes(), key


def assert_states_close(one, other, rtol):
    """All numbers of two state dicts agree, relative to the largest of each array."""
    mine, theirs = dict(flatten(one)), dict(flatten(other))
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        if value is None or isinstance(value, str):
            assert value == theirs[key]
        else:
            atol = rtol * np.max(np.abs(theirs[key]), initial=1e-300)
            np.testing.assert_allclose(value, theirs[key], rtol=rtol, atol=atol, err_msg=key)
