"""Streaming reads of the data source, as Spark calls them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import StructType

from firnline.errors import PartGoneError, StreamBehindError, UsageError
from firnline.spark.format.options import opened
from firnline.spark.format.read import Piece
from firnline.spark.format.stream import StreamReader
from firnline.spark.format.types import spark_schema
from tests.support.on_store import filled
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
