"""A dictionary is for values that repeat."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.parquet.encodings import leaves_in, with_dictionaries
from firnline.parquet.write import write_part

ROWS = 1_000


def of_some_kinds() -> pa.Table:
    differ = list(range(ROWS))
    few = [n % 7 for n in differ]
    uuids = pa.array([n.to_bytes(16, "big") for n in few], pa.binary(16))
    return pa.table(
        {
            "differ": differ,
            "few": few,
            "flag": [n % 2 == 0 for n in differ],
            "coded": pa.array([str(n) for n in few]).dictionary_encode(),
            "id": pa.uuid().wrap_array(uuids),
            "fixed": pa.array([[n, n] for n in few], pa.list_(pa.int64(), 2)),
            "many": pa.array([[n] for n in differ]),
            "s": [{"few": n, "differ": d} for n, d in zip(few, differ, strict=True)],
            "m": pa.array([[(str(n), d)] for n, d in zip(few, differ, strict=True)],
                          pa.map_(pa.string(), pa.int64())),
        }
    )  # fmt: skip


def test_columns_whose_values_repeat_get_a_dictionary() -> None:
    assert with_dictionaries(of_some_kinds()) == {
        "few": 7, "coded": 7, "id": 7, "fixed.list.element": 7, "s.few": 7, "m.key_value.key": 7,
    }  # fmt: skip


def test_a_fifth_of_the_rows_may_differ() -> None:
    values = [n % (ROWS // 5) for n in range(ROWS)]
    assert with_dictionaries(pa.table({"v": values})) == {"v": ROWS // 5}
    assert with_dictionaries(pa.table({"v": [*values[:-1], ROWS]})) == {}


def test_the_leaves_are_the_columns_of_parquet(tmp_path: Path) -> None:
    rows = of_some_kinds()
    pq.write_table(rows, tmp_path / "x.parquet")
    written = pq.ParquetFile(tmp_path / "x.parquet").schema
    paths = [written.column(n).path for n in range(len(written))]
    assert [path for path, _ in leaves_in(rows)] == paths


def test_an_appended_part_has_dictionaries_where_values_repeat(tmp_path: Path) -> None:
    rows = pa.table({"differ": range(ROWS), "few": [n % 7 for n in range(ROWS)]})
    path = tmp_path / "x.parquet"
    write_part(rows, path, metadata={}, compression_level=3, row_group_rows=ROWS)
    chunks = [pq.read_metadata(path).row_group(0).column(n) for n in range(2)]
    assert [chunk.has_dictionary_page for chunk in chunks] == [False, True]
