"""Import: every file of a folder once, in its partition, or a refusal that names the file."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    StoreUnavailableError,
    UsageError,
)
from firnline.operations.import_files.run import ImportReport, preview, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from tests.support import histories
from tests.support.histories import ids_of, parquet_bytes, rows_from, state
from tests.support.log_tables import v1_live
from tests.support.world import Sleeping, World, make_world

FOLDER = "memory://bucket/lake/in"


def put(world: World, name: str, rows: pa.Table | bytes, folder: str = "lake/in") -> str:
    key = f"{folder}/{name}"
    data = rows if isinstance(rows, bytes) else parquet_bytes(rows)
    world.store.objects[key] = (data, world.clock.now)
    return key


def do_import(world: World, source: str = FOLDER, **options: Any) -> ImportReport:
    world.clock.advance(10)
    return run_import(Work(world.table), ImportOptions(source=source, **options))


def day(value: int, first: int = 0, count: int = 3) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "day": [value] * count, "name": ["x"] * count})


def plain(**settings: Any) -> World:
    """A table that takes its partitions from the folders."""
    return make_world(**settings)


@pytest.mark.long
def test_a_folder_becomes_a_table_and_stays_as_it_was() -> None:
    world = plain()
    put(world, "day=1/one.parquet", day(1))
    put(world, "day=1/two.parquet", day(1, 3))
    put(world, "day=2/deep/three.PARQUET", day(2, 6))
    before = dict(world.store.objects)
    report = do_import(world)
    assert (report.plan["files"], report.plan["rows"], report.plan["copies"]) == (3, 9, 3)
    assert list(state(world).partitions) == ["day=1", "day=2/deep"]
    assert ids_of(world) == dict.fromkeys(range(9), 1)
    assert before.items() <= world.store.objects.items()
    assert state(world).schema == {"id": "BIGINT", "day": "BIGINT", "name": "VARCHAR"}
    assert v1_live(world) == state(world).live.keys()
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).kinds == {}
    copied = {k.rpartition("/")[2] for k in world.store.objects if "/_data/" in k}
    assert not copied & {"one.parquet", "two.parquet"}, "names are fresh"


def test_an_import_of_n_files_is_n_ranged_reads_n_copies_and_one_log_file() -> None:
    world = plain()
    for number in range(3):
        put(world, f"{number}.parquet", pa.table({"id": list(range(20_000))}))
    report = do_import(world)
    assert report.requests["bytes_out"] < 2_000
    spent = {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}
    # It begins the table: one LIST and one PUT are for the birth record, three PUT for the list of
    # files, its claim, and that it is visible. Of the folder above four LIST show that it is no
    # table of another format, one that no import has a list, and the folder is listed twice.
    assert spent == {"get": 3, "put": 8, "list": 10}


def test_files_that_lie_in_the_table_are_taken_where_they_are() -> None:
    world = plain()
    key = put(world, "a=1/mine.parquet", day(1), "t/_data")
    report = do_import(world, "memory://bucket/t/_data")
    assert list(state(world).live) == [key]
    assert report.plan["copies"] == 0
    again = do_import(world, "memory://bucket/t/_data")
    assert (again.plan["files"], again.plan["known"], again.log_file) == (0, 1, None)
    more = put(world, "a=1/more.parquet", day(1, 3), "t/_data")
    do_import(world, "memory://bucket/t/_data/a=1")
    assert state(world).live.keys() == {key, more}
    assert list(state(world).partitions) == ["a=1"]


def test_a_folder_is_imported_once_unless_told_again() -> None:
    world = plain()
    put(world, "one.parquet", day(1))
    do_import(world)
    histories.append(world, 10)  # and its record survives folds
    for source in (FOLDER, "memory://bucket/lake"):
        with pytest.raises(UsageError, match="lake/in/ was imported into this table before"):
            do_import(world, source)
    do_import(world, again=True)
    assert ids_of(world)[0] == 2


def test_the_record_of_an_import_survives_merges_and_clean_up(tmp_path: Any) -> None:
    world = plain()
    for number in range(4):
        put(world, f"{number}.parquet", day(1, 3 * number))
    do_import(world)
    histories.merge(world, tmp_path)
    histories.clean_up(world)
    histories.clean_up(world)
    assert ids_of(world) == dict.fromkeys(range(12), 1)
    with pytest.raises(UsageError, match="imported into this table before"):
        do_import(world)


def test_a_dry_run_looks_at_every_footer_and_writes_nothing() -> None:
    world = plain()
    put(world, "one.parquet", day(1))
    put(world, "none.parquet", day(1).slice(0, 0))
    put(world, "_SUCCESS", b"")
    put(world, "_hidden/x.parquet", day(1))
    put(world, "notes.txt", b"")
    before = dict(world.store.objects)
    plan = preview(world.table, ImportOptions(source=FOLDER))
    # An object without a byte that is hidden, such as _SUCCESS, is worth no word.
    assert (len(plan.files), len(plan.empty), len(plan.ignored)) == (1, 1, 2)
    report = do_import(world, dry_run=True)
    assert (report.plan, report.log_file) == (plan.to_json(), None)
    assert world.store.objects == before
    spent = report.requests["get"] + report.requests["put"] + report.requests["list"]
    assert spent <= plan.requests


# --- refusals -------------------------------------------------------------------------------------


def refused(world: World, source: str = FOLDER) -> FirnlineError:
    """The error, after which everything is as it was."""
    before = dict(world.store.objects)
    with pytest.raises(FirnlineError) as raised:
        do_import(world, source)
    assert world.store.objects == before
    return raised.value


def test_two_files_with_different_types_are_refused_by_name() -> None:
    world = plain()
    one = put(world, "one.parquet", pa.table({"id": [1]}))
    two = put(world, "two.parquet", pa.table({"id": ["x"]}))
    error = refused(world)
    assert isinstance(error, SchemaConflictError)
    assert one in error.message
    assert two in error.message


def test_a_file_with_another_type_than_the_table_is_refused() -> None:
    world = histories.filled()
    key = put(world, "one.parquet", pa.table({"id": ["x"], "day": [1], "name": ["y"]}))
    error = refused(world)
    assert isinstance(error, SchemaConflictError)
    assert key in error.message
    assert "the table" in error.message


def test_a_file_that_does_not_read_is_refused_by_name() -> None:
    world = plain()
    put(world, "good.parquet", day(1))
    key = put(world, "bad.parquet", parquet_bytes(day(1))[:-10])
    error = refused(world)
    assert isinstance(error, PartUnreadableError)
    assert key in error.message
    del world.store.objects[key]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "A"])
    key = put(world, "twice.parquet", twice)
    error = refused(world)
    assert isinstance(error, PartSchemaError)
    assert key in error.message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("memory://bucket/none", "no Parquet file lies under"),
        ("memory://elsewhere/lake/in", "is not in memory://bucket"),
        ("memory://bucket/t", "the folder of table t itself"),
        ("memory://bucket", "the folder of table t itself or holds it"),
        ("memory://bucket/t/_log", "the folder of table t itself"),
        ("memory://bucket/other/_data", "the data folder of another table"),
        ("nonsense", "'nonsense' is not the URL of a folder"),
        ("memory://bucket/other/_data/d=1/x.parquet", "the data folder of another table"),
        ("memory://bucket/lake/x.parquet", "is a file, and a folder is imported"),
    ],
)
def test_a_folder_that_cannot_be_is_refused(source: str, words: str) -> None:
    world = plain()
    put(world, "x.parquet", day(1), "other/_data/d=1")
    put(world, "x.parquet", day(1), "lake")
    error = refused(world, source)
    assert isinstance(error, UsageError)
    assert words in error.message


def test_a_word_that_is_no_url_is_the_path_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(plain(), "dir").next_step == f"write file://{tmp_path}/dir"


def test_a_file_is_answered_with_its_folder() -> None:
    world = plain()
    put(world, "x.parquet", day(1), "lake")
    error = refused(world, "memory://bucket/lake/x.parquet")
    assert error.next_step == "give its folder, memory://bucket/lake"


def test_tables_of_other_formats_are_refused() -> None:
    """Their folders also hold files that are no part of them any more; so do folders in them."""
    for name, mark in (
        ("Delta", "_delta_log/0.json"),
        ("Iceberg", "metadata/v1.metadata.json"),
        ("Hudi", ".hoodie/hoodie.properties"),
        ("Paimon", "snapshot/snapshot-1"),
    ):
        world = plain()
        put(world, "day=1/x.parquet", day(1))
        put(world, mark, b"{}")
        for source in (FOLDER, f"{FOLDER}/day=1"):
            assert f"is a {name} table" in refused(world, source).message


# --- partitions -----------------------------------------------------------------------------------


def test_statistics_prove_the_partition_of_a_file() -> None:
    world = make_world(partition_by=["day", "month(at)"], sort_by=["id"])
    when = [datetime.datetime(2013, 2, n, 5, tzinfo=datetime.UTC) for n in (1, 28)]
    rows = {"id": [1, 2], "day": ["ü/1", "ü/1"], "at": pa.array(when, pa.timestamp("ms", "UTC"))}
    put(world, "anywhere/one.parquet", pa.table(rows))
    put(world, "two.parquet", pa.table(rows | {"day": pa.array([None, None], pa.string())}))
    do_import(world)
    assert list(state(world).partitions) == [
        "day=%C3%BC%2F1/at_month=2013-02",
        "day=__null__/at_month=2013-02",
    ]
    (marker, _) = state(world).live.values()
    assert marker.stats()["id"] == (1, 2, 0)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([1, 2]), "lie in several partitions"),
        (pa.array([1, None]), "lie in several partitions"),
        (pa.array([1.5, 1.5]), "does not say between which values"),
        (pa.array(["x" * 65, "x" * 65]), "lie in several partitions"),
    ],
)
def test_a_file_whose_partition_is_not_proven_is_refused(column: pa.Array, words: str) -> None:
    world = make_world(partition_by=["day"])
    key = put(world, "one.parquet", pa.table({"day": column}))
    error = refused(world)
    assert words in error.message
    assert key in error.message


def test_a_bucket_is_proven_by_one_value_and_refused_otherwise() -> None:
    world = make_world(partition_by=["bucket(4, id)"])
    put(world, "one.parquet", pa.table({"id": [7, 7]}))
    do_import(world)
    (name,) = state(world).partitions
    assert name.startswith("id_bucket=")
    put(world, "two.parquet", pa.table({"id": [7, 8]}), "lake/more")
    assert "several partitions" in refused(world, "memory://bucket/lake/more").message


def test_a_file_without_the_column_of_the_partition_is_refused() -> None:
    world = make_world(partition_by=["day"])
    put(world, "one.parquet", pa.table({"id": [1]}))
    assert "no column 'day'" in refused(world).message


def test_folders_have_to_match_the_partition_setting() -> None:
    world = plain(partition=r"day=\d")
    put(world, "day=1/one.parquet", day(1))
    do_import(world)
    put(world, "b=1/one.parquet", day(1), "lake/more")
    assert "lies in 'b=1'" in refused(world, "memory://bucket/lake/more").message


def test_a_file_in_place_in_the_wrong_partition_is_refused() -> None:
    world = make_world(partition_by=["day"])
    put(world, "day=2/one.parquet", day(1), "t/_data")
    assert "its rows belong to 'day=1'" in refused(world, "memory://bucket/t/_data").message


# --- failures -------------------------------------------------------------------------------------


def test_copies_of_an_import_that_fails_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = plain()
    for number in range(3):
        put(world, f"{number}.parquet", day(1))
    copy, calls = world.store.copy, []

    def fails(source: str, key: str) -> None:
        calls.append(key)
        if len(calls) == 3:
            raise StoreUnavailableError("the store is down", next_step="wait")
        copy(source, key)

    monkeypatch.setattr(world.store, "copy", fails)
    assert isinstance(refused(world), StoreUnavailableError)


def test_an_import_that_takes_longer_than_an_append_may_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = plain()
    put(world, "1.parquet", day(1))
    copy = world.store.copy

    def slow(source: str, key: str) -> None:
        copy(source, key)
        world.clock.elapsed += world.settings.append.ttl + 1

    monkeypatch.setattr(world.store, "copy", slow)
    before = set(world.store.objects)
    with pytest.raises(AppendExpiredError, match=r"longer than append\.ttl"):
        do_import(world)
    # The claim of the list of files stays, for the clean-up.
    assert {key for key in world.store.objects if "/_once/" not in key} == before


def test_an_import_that_slept_between_two_puts_of_its_log_file_does_not_send_the_second() -> None:
    """A delete that was to hide its rows may be forgotten, and its copies may be swept."""
    world = plain()
    put(world, "1.parquet", day(1))
    ttl = world.settings.append.ttl
    store = Sleeping(world.store, clock=world.clock, what="/_log/", ms=ttl + 1)
    with pytest.raises(CommitUnknownError, match="too late to try again"):
        run_import(Work(replace(world.table, store=store)), ImportOptions(source=FOLDER))
    assert len(store.lost) == 1
    assert not [key for key in world.store.objects if "/_log/" in key]


def test_rows_of_an_import_are_hidden_by_later_deletes_only() -> None:
    world = histories.filled()
    histories.delete_lazily(world, 100)
    put(world, "1.parquet", rows_from(50).filter(pa.array([True, False] * 3)))
    do_import(world)
    (marker,) = (m for m in state(world).live.values() if m.q == 1)
    assert state(world).pending_deletes(marker, "day=0") == []
