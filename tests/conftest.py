"""Fixtures of several folders."""

import signal

import pytest


@pytest.fixture
def ctrl_c():
    """Ctrl-C as on a terminal, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
