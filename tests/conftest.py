"""Fixtures of several folders."""

import signal

import pytest


def pytest_collection_modifyitems(items):
    """Build the site first: at the end, one process would wait for the other that builds it."""
    items.sort(key=lambda item: "site" not in getattr(item, "fixturenames", ()))


@pytest.fixture
def ctrl_c():
    """Ctrl-C as on a terminal, also where the tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
