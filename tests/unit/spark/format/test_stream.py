"""Streaming reads of the data source, as Spark calls them."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from firnline.errors import PartGoneError, StreamBehindError, UsageError
from firnline.spark.format.options import opened
from firnline.spark.format.read import Piece
from firnline.spark.format.stream import StreamReader
from firnline.spark.format.types import spark_schema
from firnline.spark.versions import ReadAllAvailable, ReadMaxFiles
from tests.support.on_store import filled, merge
from tests.support.on_store import opened as open_table
from tools.s3server import StoreRoot


def reader(url: str, **options: str) -> StreamReader:
    given = {"path": url, **options}
    schema = spark_schema({"id": "BIGINT", "day": "VARCHAR"})
    return StreamReader(opened(given, "{}"), given, schema)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("at", "1", "has no option at"),
        ("dedup", "true", "has no option dedup"),
        ("maxPartsPerBatch", "0", "a number of parts"),
        ("maxBytesPerBatch", "many", "many"),
    ],
)
def test_options_that_a_stream_cannot_have_are_refused(
    option: str, value: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        reader(f"file://{tmp_path}/t", **{option: value})


def test_batches_keep_within_bounds_unless_everything_is_asked_for(tmp_path: Path) -> None:
    root = StoreRoot("file", f"file://{tmp_path}", {})
    table = filled(open_table(root), 3)
    stream = reader(table.settings.root, maxPartsPerBatch="2", startingAt="0")
    start = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxFiles(2)
    once = stream.latestOffset(start, ReadMaxFiles(2))
    assert len(once["seen"].split()) == 1, "an append has two parts here"
    assert len(stream.latestOffset(start, ReadAllAvailable())["seen"].split()) == 3
    assert stream.partitions(start, start) == []
    stream.prepareForTriggerAvailableNow()
    filled(table, 1, first=12)
    assert len(stream.latestOffset(once, ReadAllAvailable())["seen"].split()) == 3
    small = reader(table.settings.root, maxBytesPerBatch="1", startingAt="0")
    assert len(small.latestOffset(start, small.getDefaultReadLimit())["seen"].split()) == 1


def test_a_spark_that_states_no_beginning_and_no_limit_gets_all_that_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = StoreRoot("file", f"file://{tmp_path}", {})
    table = filled(open_table(root), 3)
    monkeypatch.setattr("firnline.spark.format.stream.SPARK_4_2_PLUS", False)
    with caplog.at_level(logging.WARNING):
        stream = reader(table.settings.root, maxPartsPerBatch="1")
    assert "limits from Spark 4.2 on" in caplog.text
    assert "maxpartsperbatch" in caplog.text
    begin = stream.initialOffset()
    first = stream.latestOffset()
    filled(table, 2, first=12)
    merge(table, tmp_path / "scratch")
    filled(table, 1, first=20)
    second = stream.latestOffset()
    assert rows_of(stream, begin, first) == list(range(12))
    assert rows_of(stream, first, second) == list(range(12, 24))
    assert stream.latestOffset() == second
    assert stream.partitions(second, second) == []


def rows_of(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    pieces = stream.partitions(start, end)
    return sorted(n for p in pieces for batch in stream.read(p) for n in batch["id"].to_pylist())


def test_a_part_that_goes_while_it_is_read_is_named_by_a_stream_that_is_behind(
    tmp_path: Path,
) -> None:
    root = StoreRoot("file", f"file://{tmp_path}", {})
    table = filled(open_table(root), 1)
    stream = reader(table.settings.root, where="id < 3")
    task = pickle.loads(pickle.dumps(stream))
    begin = stream.initialOffset()
    (piece,) = stream.partitions(begin, stream.latestOffset(begin, ReadAllAvailable()))
    assert isinstance(piece, Piece)
    assert sum(batch.num_rows for batch in task.read(piece)) == 3
    (part, *_) = [meta.key for meta in table.store.list(table.paths.data_dir)]
    list(table.store.delete_many([part]))
    with pytest.raises(StreamBehindError, match="behind by more than cleanup") as caught:
        list(stream.read(piece))
    assert not isinstance(caught.value, PartGoneError)


def test_the_stream_of_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no table"):
        StreamReader(
            opened({"path": f"file://{tmp_path}/t"}, "{}"), {}, StructType()
        ).initialOffset()
