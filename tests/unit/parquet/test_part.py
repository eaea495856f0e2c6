from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import PartUnreadableError
from firnline.parquet.part import PartMetadata, read_pairs

NUMBERS = st.integers(0, 2**53)


def encoded(pairs: dict[str, str]) -> dict[bytes, bytes]:
    return {key.encode(): value.encode() for key, value in pairs.items()}


@pytest.mark.long
@given(
    st.builds(
        PartMetadata,
        table=st.text(),
        partition=st.text(),
        writer=st.text(min_size=1),
        append=st.text(),
        q=NUMBERS,
        o=st.tuples(NUMBERS, NUMBERS),
        rows=NUMBERS,
        d=st.lists(st.text(), max_size=2).map(tuple),
        replaces=st.lists(st.text(), max_size=3).map(tuple),
    )
)
def test_metadata_comes_back_from_its_pairs(metadata: PartMetadata) -> None:
    pairs = encoded(metadata.to_pairs()) | {b"other": b"\xff"}
    assert read_pairs("x.parquet", pairs) == metadata


def test_what_a_merge_kernel_writes_is_read() -> None:
    pairs = {
        "firnline.table": "flights",
        "firnline.partition": "ts_month=2013-01",
        "firnline.writer": "merge",
        "firnline.q": "3",
        "firnline.o": "[5,9]",
        "firnline.replaces": '["a.parquet","b.parquet"]',
        "firnline.rows": "12",
    }
    assert read_pairs("x.parquet", encoded(pairs)) == PartMetadata(
        table="flights",
        partition="ts_month=2013-01",
        writer="merge",
        q=3,
        o=(5, 9),
        rows=12,
        replaces=("a.parquet", "b.parquet"),
    )


def test_a_part_of_a_foreign_client_has_none() -> None:
    assert read_pairs("x.parquet", None) is None
    assert read_pairs("x.parquet", {b"pandas": b"{}"}) is None


@pytest.mark.parametrize(("key", "value"), [("q", "x"), ("o", "5"), ("replaces", "{}")])
def test_metadata_that_does_not_read_names_the_part(key: str, value: str) -> None:
    pairs = PartMetadata(table="t", partition="", writer="w").to_pairs()
    with pytest.raises(PartUnreadableError, match=r"x\.parquet"):
        read_pairs("x.parquet", encoded(pairs | {f"firnline.{key}": value}))
    with pytest.raises(PartUnreadableError):
        read_pairs("x.parquet", {b"firnline.q": b"1"})
