"""Files of keys: any types of the table, in bounded memory, and no key in an error."""

from __future__ import annotations

import datetime
import tempfile
import tracemalloc
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import UsageError
from firnline.operations.erase import key_files, keys
from firnline.operations.erase.key_files import read_keys
from tests.support.world import make_world

SCHEMA = {"i": "BIGINT", "s": "VARCHAR"}


def test_a_file_is_read_by_the_types_of_the_table(tmp_path: Path) -> None:
    world = make_world()
    schema = {"c": "DECIMAL(9,2)", "d": "DATE", "u": "UUID", "ts": "TIMESTAMP", "s": "VARCHAR"}
    uuid = UUID(int=7)
    csv = tmp_path / "k.csv"
    csv.write_text(f"s,ts,u,d,c\n007,2013-01-01 05:00:00,{uuid},2013-01-02,1.5\n")
    found = read_keys(world.table, list(schema), schema, str(csv))
    moment = datetime.datetime(2013, 1, 1, 5)  # noqa: DTZ001 - a column without zone
    table = pa.table(
        {
            "c": pa.array([Decimal("1.50")]),
            "d": pa.array([datetime.date(2013, 1, 2)]),
            "u": pa.array([str(uuid)]),
            "ts": pa.array([moment], pa.timestamp("us")),
            "s": ["007"],
        }
    )
    pq.write_table(table, tmp_path / "k.parquet")
    same = read_keys(world.table, list(schema), schema, f"file://{tmp_path}/k.parquet")
    assert found.keys == same.keys


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("k.csv", "x\n1\n", "has no column 'i' among its 1"),
        ("k.csv", "4711\n4712\n", "has no column 'i' among its 1"),
        ("k.csv", "i,I\n1,2\n", "has 2 column 'i' among its 2"),
        ("k.csv", "i,s\n1,a\n,b\n", "key 2 of"),
        ("k.csv", "i,s\n1,a\n4711\n", "does not read: line 3 has 1 column, and its head 2"),
        (
            "k.csv",
            "\ni,s\n\n1,a\n4711,b,c\n",
            "does not read: line 5 has 3 columns, and its head 2",
        ),
        ("k.csv", 'i,s\n1,"a\nb"\n4711\n', "does not read: line 4 has 1 column, and its head 2"),
        ("k.csv", "i,s\n1,a\n\udcff4711,b\n", "does not read: line 3 is no UTF-8"),
        ("k.csv", "i,s\n1,a\n 4711,b\n", "key 2 of"),
        ("k.csv", "i;s\n1;a\n", "k.csv has semicolons between its columns, and a CSV file of keys"),
        ("k.csv", "i;s\n1,5;a\n", "k.csv has semicolons between its columns"),
        ("k.csv", "i\ts\n1\ta\n", "k.csv has tabs between its columns"),
        ("k.csv", "", "does not read"),
        ("k.csv", "i\n", "has no key"),
        ("k.parquet", "nonsense", "is not a Parquet file"),
    ],
)
def test_a_file_that_is_none_is_named(name: str, content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(UsageError) as raised:
        read_keys(make_world().table, ["i"], SCHEMA, str(path))
    assert str(path) in raised.value.message
    assert said in str(raised.value)
    assert "4711" not in str(raised.value)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[4711]]),
        pa.array([[4711]], pa.list_(pa.int64(), 1)),
        pa.array([{"i": 4711}]),
        pa.array([[(1, 4711)]], pa.map_(pa.int64(), pa.int64())),
    ],
    ids=["list", "fixed list", "struct", "map"],
)
def test_a_column_of_several_values_is_refused(values: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"i": values}), path)
    with pytest.raises(UsageError, match="a key has one value per column") as raised:
        read_keys(make_world().table, ["i"], SCHEMA, str(path))
    assert "4711" not in str(raised.value)


def repeated(path: Path, value: str, rows: int) -> None:
    """A file that stores one text once, however many rows have it."""
    indices = pa.array(np.zeros(rows, dtype=np.int32))
    column = pa.DictionaryArray.from_arrays(indices, pa.array([value]))
    pq.write_table(pa.table({"s": column}), path, row_group_size=rows, compression="zstd")


@pytest.mark.long
def test_a_text_that_many_rows_repeat_is_decoded_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "k.parquet"
    repeated(path, "x" * 100_000, 3_000)
    assert path.stat().st_size < 10_000
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = read_keys(make_world().table, ["s"], SCHEMA, str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.keys) == 1
    # 300 MB of text, had it been decoded as a whole.
    assert peak < 3 * key_files._PIECE_BYTES
    assert pa.total_allocated_bytes() - before < key_files._PIECE_BYTES


def test_more_rows_than_keys_are_refused_by_the_footer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.parquet"
    repeated(path, "x", keys.MAX_KEYS + 1)

    def decode(*_: object, **__: object) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", decode)
    with pytest.raises(UsageError, match="has more than 5,000,000 keys"):
        read_keys(make_world().table, ["s"], SCHEMA, str(path))


def test_columns_that_say_to_be_too_large_are_refused_by_the_footer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.parquet"
    table = pa.table({"s": ["x" * 900, "y" * 900], "s2": ["z" * 9_000] * 2})
    pq.write_table(table, path, use_dictionary=False)
    monkeypatch.setattr(key_files, "MAX_KEY_BYTES", 5_000)
    assert len(read_keys(make_world().table, ["s"], SCHEMA, str(path)).keys) == 2
    monkeypatch.setattr(key_files, "MAX_KEY_BYTES", 1_000)
    with pytest.raises(UsageError, match="take more than"):
        read_keys(make_world().table, ["s"], SCHEMA, str(path))


@pytest.mark.parametrize("limit", ["MAX_KEYS", "MAX_KEY_BYTES"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_keys_are_counted_while_they_are_read(
    limit: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a footer says, and of a CSV file, which has none."""
    path = tmp_path / f"k.{ending}"
    texts = [f"key-{n:06}" for n in range(100)]
    if ending == "csv":
        path.write_text("s\n" + "\n".join(texts))
    else:
        pq.write_table(pa.table({"s": texts}), path)
    monkeypatch.setattr(keys, limit, 99 if limit == "MAX_KEYS" else 999)
    with pytest.raises(UsageError, match="more than"):
        read_keys(make_world().table, ["s"], SCHEMA, str(path))
    monkeypatch.setattr(keys, limit, 1_000)
    assert len(read_keys(make_world().table, ["s"], SCHEMA, str(path)).keys) == 100


@pytest.mark.long
def test_a_wrong_line_is_named_wherever_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text("i,s\n" + "1,a\n" * 300_000 + "4711\n")
    with pytest.raises(UsageError, match="line 300002 has 1 column, and its head 2"):
        read_keys(make_world().table, ["i"], SCHEMA, str(path))


@pytest.mark.parametrize("value", [" a", "a ", "\ta", "a\u00a0", '" a"'])
def test_a_text_of_csv_with_white_space_at_an_end_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text(f"i,s\n1,b\n2,{value}\n")
    said = "key 2 of .* has white space at an end of its s, and would match no row without it"
    with pytest.raises(UsageError, match=said):
        read_keys(make_world().table, ["s"], SCHEMA, str(path))
    assert len(read_keys(make_world().table, ["i"], SCHEMA, str(path)).keys) == 2


def test_a_text_of_parquet_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"s": ["a ", "b"]}), path)
    assert read_keys(make_world().table, ["s"], SCHEMA, str(path)).keys == (("a ",), ("b",))


def test_keys_from_the_bucket_are_on_disk_for_their_owner_alone_and_not_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    world, seen = make_world(), list[int]()
    world.store.put_new("keys.csv", b"i\n1\n")
    fetch = world.store.get_file

    def get_file(key: str, path: Path) -> object:
        seen.append(path.parent.stat().st_mode & 0o777)
        return fetch(key, path)

    monkeypatch.setattr(world.store, "get_file", get_file)
    abandoned = tmp_path / "firnline" / "firnline-of-a-killed-process"
    abandoned.mkdir(parents=True)
    (abandoned / "keys.csv").write_text("i\n4711\n")
    abandoned.with_name(f"{abandoned.name}.lock").touch()
    assert read_keys(world.table, ["i"], SCHEMA, "memory://bucket/keys.csv").keys == ((1,),)
    assert seen == [0o700]
    assert list((tmp_path / "firnline").iterdir()) == []
