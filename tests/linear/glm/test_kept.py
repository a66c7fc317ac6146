"""How many rows a memory holds."""

import pytest

from mixfree.linear.glm.rows import rows_of


def test_memory_in_rows_and_bytes():
    assert rows_of(2048, 7, 1) == 2048
    assert rows_of("1 mb", 10, 1) == int(1e6 / (8 * 14 * 1.125))
    assert rows_of("36MB", 999, 1) >= 3_000
    with pytest.raises(ValueError, match=r"give memory='54MB'"):
        rows_of("32MB", 1_400, 1)
    assert rows_of("54MB", 1_400, 1) >= 4_203
    for wrong in (0, 2.5, "12", "MB", "-1MB", None):
        with pytest.raises(ValueError, match="memory"):
            rows_of(wrong, 10, 1)
