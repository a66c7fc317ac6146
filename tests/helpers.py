"""What several tests need."""

import numpy as np

import mixfree as mf


def make(name, start, domain=None, **options):
    """A method of the table, with a mixing time or whatever else it needs."""
    return mf.methods()[name](start, domain=domain, **{**needed(name, 6), **options})


def needed(name, mixing_time):
    """The options that a method of the table must be given."""
    required = mf.methods()[name].required
    return required | ({"mixing_time": mixing_time} if "mixing_time" in required else {})


def flatten(state, prefix=""):
    """Every number and array of a state dict by its path."""
    for key, value in sorted(state.items()):
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for i, sample in enumerate(value):
                yield f"{prefix}{key}[{i}]", sample if np.isscalar(sample) else np.hstack(sample)
        else:
            yield prefix + key, value


def assert_same_bits(one, other):
    """Two state dicts are identical to the last bit."""
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
            scale = np.max(np.abs(theirs[key]), initial=1e-300)
            np.testing.assert_allclose(
                value, theirs[key], rtol=rtol, atol=rtol * scale, err_msg=key
            )
