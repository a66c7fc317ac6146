"""Functions chosen by type, and what is said while they are compiled."""

from typing import NamedTuple

import numpy as np
import pytest

import mixfree as mf
from mixfree.kernels.jit import by_type, inline, on_compile, uncached
from mixfree.kernels.plan import plan_of


class First(NamedTuple):
    pass


class Second(NamedTuple):
    factor: float


@inline
def not_to_be_compiled(x):
    return x.there_is_no_such_attribute


@by_type
def grown(part, x):
    return not_to_be_compiled(x)


@grown.register(Second)
def _(part, x):
    return part.factor * x


def test_only_what_is_chosen_is_compiled():
    """A branch at run time would compile the other one, too, and fail."""
    compiled = uncached(lambda part, x: grown(part, x))
    assert compiled(Second(3.0), 2.0) == 6.0
    with pytest.raises(Exception, match="there_is_no_such_attribute"):
        compiled(First(), 2.0)


def test_parts_that_differ_in_numbers_only_share_a_kernel():
    """A kernel per setting would be compiled for every value that a user tries."""
    start = np.zeros(3)
    same = [
        mf.MAG(start, levels=3, domain=mf.Ball(1.0)),
        mf.MAG(start, levels=None, alpha=2.0, output="tail", domain=mf.Ball(2.0)),
    ]
    types = {tuple(type(part) for part in plan_of(opt)) for opt in same}
    assert len(types) == 1
    other = tuple(type(part) for part in plan_of(mf.Ladder(start)))
    assert other not in types


def test_a_listener_hears_of_a_compilation_and_not_of_a_second_call():
    heard = []
    double = uncached(lambda x: 2 * x)
    with on_compile(heard.append):
        assert double(1) == 2 and double(2) == 4
        assert double(0.5) == 1.0
    assert len(heard) == 2 and all("compiling the kernel" in text for text in heard)
    assert double(1j) == 2j and len(heard) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_told(capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    uncached(lambda x: x.sum())(np.ones(3))
    assert ("compiling" in capsys.readouterr().err) == terminal
