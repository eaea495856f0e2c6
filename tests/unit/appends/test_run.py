from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    OutcomeUnknownError,
    PartSchemaError,
    SchemaConflictError,
    ScratchFullError,
    StoreUnavailableError,
    UsageError,
)
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.read.scan import scan
from firnline.state.snapshot import read_snapshot
from firnline.types.arrow import parse_type
from tests.support.appends import TABLE, breakable, clock_of, down, keys, make, unknown
from tests.support.histories import clean_up, merge
from tests.support.world import FaultyStore, Sleeping, World, make_world


@pytest.mark.parametrize(
    ("rows", "error", "piece"),
    [
        (pa.table({"a": ["x"]}), SchemaConflictError, "'a' is BIGINT in log file t/_log/"),
        (pa.table({"A": [1]}), SchemaConflictError, "case"),
        (pa.table({"z": pa.nulls(1)}), PartSchemaError, "'z'"),
        (pa.table({"z": pa.array([1], pa.duration("s"))}), PartSchemaError, "'z'"),
        (pa.Table.from_arrays([pa.array([1])] * 2, ["z", "z"]), PartSchemaError, "'z'"),
        (pa.table({"z": pa.array([2**62], pa.timestamp("s"))}), PartSchemaError, "'z'"),
        (pa.table({}), UsageError, "no columns"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_refused_before_any_put(
    rows: pa.Table, error: type[FirnlineError], piece: str
) -> None:
    table = make()
    Appender(table).append(pa.table({"a": [1]}))
    puts = table.store.counters.put
    appender = Appender(table)
    with pytest.raises(error, match=piece):
        appender.append(rows)
    assert table.store.counters.put == puts
    assert appender.append(pa.table({"a": [2]})).rows == 1


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (pa.array([1, None], pa.int8()), "BIGINT"),
        (pa.array([1, None], pa.uint32()), "BIGINT"),
        (pa.array([0.1, None], pa.float32()), "DOUBLE"),
        (pa.array([1, None], pa.int32()).cast(pa.decimal128(12, 2)), "DECIMAL(18,4)"),
        (pa.array([1, None], pa.int32()).cast(pa.date32()), "TIMESTAMP"),
    ],
    ids=str,
)
def test_a_narrower_type_that_loses_nothing_is_cast_to_the_table_s(
    given: pa.Array, known: str
) -> None:
    table = make()
    appender = Appender(table, known_schema={"a": known, "b": "INTEGER"})
    result = appender.append(pa.table({"a": given, "b": pa.array([1, 2], pa.int16())}))
    footer = pq.read_schema(pa.BufferReader(table.store.get(result.parts[0].key)))
    assert (footer.field("a").type, footer.field("b").type) == (parse_type(known), pa.int32())
    assert read_snapshot(table.store, table.paths).schema == {"a": known, "b": "INTEGER"}
    with pytest.raises(SchemaConflictError, match="'b' is INTEGER"):
        appender.append(pa.table({"b": [1]}))  # wider


def test_text_that_is_no_utf8_is_refused() -> None:
    offsets = pa.array([0, 2], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    with pytest.raises(PartSchemaError, match="'a'"):
        Appender(make()).append(pa.table({"a": bad}))


@pytest.mark.parametrize(
    "given",
    [
        {"partition_by": ["month(ts)"]},
        {"sort_by": ["nosuch"]},
        {"primary_key": ["n", "nosuch"]},
        {"primary_key": ["n"], "version": "nosuch"},
        {"ttl": {"keep": "90d", "column": "nosuch"}},
    ],
    ids=str,
)
def test_settings_that_name_a_column_nobody_has_are_refused(given: dict[str, Any]) -> None:
    table = make(**given)
    with pytest.raises(UsageError, match="n, d"):
        Appender(table).append(TABLE)
    assert table.store.counters.put == 0


def test_parts_of_an_append_that_fails_are_deleted() -> None:
    table = make(partition_by=["month(d)"])

    def rows() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise RuntimeError("the source broke")

    small = table.settings.model_copy(
        update={"append": table.settings.append.model_copy(update={"part_bytes": 1})}
    )
    object.__setattr__(table, "settings", small)
    with pytest.raises(RuntimeError, match="the source broke"):
        Appender(table).append(rows())
    assert table.store.counters.put > 0
    assert keys(table, "_data") == keys(table, "_log") == []


def test_a_part_that_cannot_be_put_fails_the_append() -> None:
    table = make()
    breakable(table).after["put_file"] = down()
    with pytest.raises(StoreUnavailableError):
        Appender(table).append(TABLE)
    assert keys(table, "_data") == keys(table, "_log") == []


def test_an_unknown_outcome_of_the_log_file_deletes_nothing() -> None:
    for when in ("before", "after"):
        table = make()
        getattr(breakable(table), when)["put_new"] = unknown()
        breakable(table).before["get"] = down()
        with pytest.raises(CommitUnknownError, match="_log/"):
            Appender(table).append(TABLE)
        assert len(keys(table, "_data")) == 1
        assert len(keys(table, "_log")) == (when == "after")


def test_a_lost_answer_is_read_back() -> None:
    table = make()
    breakable(table).after["put_new"] = unknown()
    assert Appender(table).append(TABLE).log_key == keys(table, "_log")[0]


def test_an_append_that_took_too_long_is_not_published() -> None:
    table = make()

    def slow() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        clock_of(table).advance(table.settings.append.ttl + 1)

    with pytest.raises(AppendExpiredError, match=r"append\.ttl"):
        Appender(table).append(slow())
    assert keys(table, "_data") == keys(table, "_log") == []


def test_an_append_that_slept_between_two_puts_of_its_log_file_does_not_send_the_second() -> None:
    """A delete that was to hide its rows may be forgotten, and its parts may be swept."""
    world = make_world()
    store = Sleeping(
        world.store, clock=world.clock, what="/_log/", ms=world.settings.append.ttl + 1
    )
    with pytest.raises(CommitUnknownError, match="too late to try again"):
        Appender(replace(world.table, store=store)).append(TABLE)
    assert len(store.lost) == 1
    assert keys(world.table, "_log") == []


def test_parts_that_cannot_be_deleted_do_not_hide_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = make()
    breakable(table).before["delete_many"] = down()
    breakable(table).after["put_file"] = down()
    with pytest.raises(StoreUnavailableError):
        Appender(table).append(TABLE)
    assert "left to the orphan sweep" in caplog.text


def test_a_scratch_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScratchFullError, match="nosuch"):
        Appender(make(), scratch=tmp_path / "nosuch").append(TABLE)


def test_a_log_file_that_was_folded_and_deleted_meanwhile_is_not_put_again(tmp_path: Path) -> None:
    world = make_world(cleanup={"grace": "1m"}, merge={"min_inputs": 2}, sort_by=["a"])
    Appender(world.table).append(pa.table({"a": [1]}))
    world.clock.advance(10)

    class LosesTheAnswer(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if "/_log/" in key and "_m_" not in key:
                merge(world, tmp_path)
                for _ in range(3):
                    clean_up(world)  # an hour is more than this grace, and less than append.ttl
                assert key not in world.store.objects
                raise OutcomeUnknownError("no answer", next_step="read it back")

    with pytest.raises(CommitUnknownError):
        Appender(replace(world.table, store=LosesTheAnswer(world.store))).append(
            pa.table({"a": [2]})
        )
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy
    assert ids(world) == [1, 2]


def ids(world: World) -> list[int]:
    """Rows that readers see."""
    return sorted(scan(world.table).to_arrow().column("a").to_pylist())
