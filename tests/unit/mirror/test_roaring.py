"""Sets of row numbers in Delta's form: what is written reads back, and damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.mirror.delta.roaring import MAGIC, decode, encode


@given(st.sets(st.integers(0, 2**34), max_size=50), st.integers(0, 2**33), st.integers(1, 9_000))
def test_what_is_written_reads_back(scattered: set[int], first: int, length: int) -> None:
    rows = np.array(sorted(scattered | set(range(first, first + length))), np.int64)
    assert decode(encode(rows)).tolist() == rows.tolist()


def test_the_form_is_that_of_the_public_examples() -> None:
    """An array container by hand: magic, 1 bitmap, key 0, cookie, 1 container, key, count - 1."""
    rows = np.array([3, 4, 7], np.int64)
    expected = MAGIC.to_bytes(4, "little") + (1).to_bytes(8, "little") + (0).to_bytes(4, "little")
    expected += (12346).to_bytes(4, "little") + (1).to_bytes(4, "little")
    expected += (0).to_bytes(2, "little") + (2).to_bytes(2, "little")
    expected += (16).to_bytes(4, "little")
    expected += b"".join(n.to_bytes(2, "little") for n in (3, 4, 7))
    assert encode(rows) == expected


def test_a_set_takes_a_bit_for_each_row_of_its_part_at_most() -> None:
    every_other = np.arange(0, 1_000_000, 2)
    assert len(encode(every_other)) < 1_048_576 / 8 + 16 * 12 + 20
    assert len(encode(np.zeros(0, np.int64))) == 12


@pytest.mark.parametrize("length", [0, 3, 12, 15, 20, 30, 39])
def test_what_ends_too_early_is_refused(length: int) -> None:
    data = encode(np.array([1, 2, 70_000, 70_001], np.int64))
    with pytest.raises(ValueError, match="too early"):
        decode(data[:length])


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="it begins with 0"):
        decode(bytes(40))
