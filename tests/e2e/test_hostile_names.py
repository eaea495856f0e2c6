"""Partition values and paths that no sane person writes, through the whole life of a table.

Each is either refused at the start, in one sentence, or goes with all its rows through append,
merge, rewrite, drop and clean-up, on every kind of store: in `make test` a third of them on each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DropOptions,
    MergeOptions,
    RewriteOptions,
    VerifyOptions,
)
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.verify.run import run_verify
from firnline.paths import Root, TablePaths, quote_value, unquote_value
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.table import Table
from tests.support.effort import FULL
from tests.support.hostile import reading, refusal
from tests.support.reading import visible_rows
from tests.support.world import SetClock, make_world
from tools.s3server import StoreRoot
from tools.samples import sample_name

RUN = RunIdentity(run_id="r")
SCHEMES = ("memory", "file", "s3")
KINDS = pa.schema([("p", pa.string()), ("n", pa.int64())])
VALUES = [
    "",
    " ",
    ".",
    "..",
    "../..",
    "/",
    "//",
    "a/b",
    "\\",
    "..\\x",
    "'",
    '"',
    "';--",
    "a=b",
    "=",
    "p=1",
    "%",
    "%2F",
    "%00",
    "%252F",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "\x1b[2J",
    "\x7f",
    "é",
    "e\u0301",
    "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u202eabc",
    "\ufeff",
    "\u0000\uffff",
    "__null__",
    "null",
    "NULL",
    "*",
    "?",
    "[a]",
    "{a,b}",
    "a|b",
    "$HOME",
    "~",
    "#",
    "?uploadId=1",
    "&amp;",
    "+",
    "<x>",
    ":",
    "C:",
    "_log",
    "_data",
    ".parquet",
    "-rf",
    "a" * 250,
]
PATHS = [
    "d=1",
    "d=it's",
    'd="x"',
    "d=a b",
    "d=a\\b",
    "d=%2F",
    "d=%",
    "d==",
    "a=b=c/d=e=f",
    "d=é",
    "d=e\u0301",
    "d=\U0001f600",
    "d=*",
    "d=[1]",
    "d=?",
    "d={a,b}",
    "d=~",
    "d=$HOME",
    "d=#",
    "d=&",
    "d=+",
    "d=...",
    "d=" + "x" * 200,
    "/".join(f"l{n}=x" for n in range(12)),
]
REFUSED = [
    ".",
    "..",
    "/",
    "/d=1",
    "d=1/",
    "d=1//e=2",
    "d=1/../d=2",
    "../other",
    "d=1/.",
    "d=a\nb",
    "d=a\rb",
    "d=a\0b",
    "d=\x1b[2J",
    "d=\x7f",
    "d=\udc80",
]


@dataclass(frozen=True)
class Place:
    """A table on one kind of store."""

    table: Table
    folder: Path

    def engine(self) -> LocalEngine:
        return LocalEngine(
            lambda: self.table.store, self.folder / "scratch", SystemIds(), SystemClock()
        )

    def configured(self, **settings: Any) -> Place:
        """The same place with other settings."""
        given = {"name": "t", "root": self.table.settings.root, "merge": {"min_inputs": 2}}
        model = TableSettings.model_validate({**given, **settings})
        return replace(self, table=replace(self.table, settings=model))

    def share(self, names: list[str]) -> list[str]:
        """Return a third of the names, on each kind of store another one; all in full."""
        scheme = self.table.settings.root.partition(":")[0]
        first = (sum(sample_name().encode()) + SCHEMES.index(scheme)) % len(SCHEMES)
        return names if FULL else names[first :: len(SCHEMES)]

    def rows(self) -> Counter[Any]:
        return Counter((row["p"], row["n"]) for row in visible_rows(self.table))


@pytest.fixture(params=SCHEMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        world = make_world()
        return Place(world.table, tmp_path)
    if request.param == "file":
        root = f"file://{tmp_path}/sto're [1]*/t%2F \U0001f600"
        Path(root.removeprefix("file://")).parent.mkdir()
    else:
        found: StoreRoot = request.getfixturevalue("s3_environ")
        root = found.url + "/t's [1]* é"
    settings = TableSettings.model_validate({"name": "t", "root": root})
    store: Store = open_store(root)
    clock = SetClock(SystemClock().now_ms())
    paths = TablePaths(Root.parse(root).prefix)
    return Place(Table(settings, store, paths, clock, SystemIds()), tmp_path)


def lived_through(place: Place, dropped: tuple[str, ...], gone: Callable[[Any], bool]) -> None:
    """Merge, rewrite, drop and clean up; every step leaves exactly the rows it should."""
    table = place.table
    before = place.rows()
    run_merge(Work(table, RUN, place.engine), MergeOptions())
    assert place.rows() == before
    assert all(
        len(parts) == 1 for parts in read_snapshot(table.store, table.paths).partitions.values()
    )
    run_rewrite(Work(table, RUN, place.engine), RewriteOptions(where="n != 7"))
    left = Counter({key: count for key, count in before.items() if key[1] != 7})
    assert place.rows() == left
    run_drop(Work(table, RUN), DropOptions(partitions=dropped))
    left = Counter({key: count for key, count in left.items() if not gone(key[0])})
    assert place.rows() == left
    assert isinstance(table.clock, SetClock)
    table.clock.advance(table.settings.cleanup.grace + 60_000)
    report = run_cleanup(Work(table, RUN), CleanupOptions())
    assert report.parts > 0
    assert place.rows() == left
    objects = {meta.key for meta in table.store.list(table.paths.data_dir)}
    assert objects == {m.p for m in read_snapshot(table.store, table.paths).live.values()}
    assert run_verify(Work(table), VerifyOptions(deep=True)).healthy


@pytest.mark.turn
def test_any_partition_value_lives_through_every_operation(place: Place) -> None:
    place = place.configured(partition_by=["p"])
    appender = Appender(place.table)
    some = place.share(VALUES)
    for first in (0, 6):
        rows = [{"p": p, "n": n} for p in [*some, None] for n in (first, first + 1)]
        appender.append(pa.Table.from_pylist(rows, KINDS))
    partitions = [info.partition for info in list_partitions(place.table)]
    assert len(partitions) == len(some) + 1
    values = {unquote_value(name.partition("=")[2]) for name in partitions}
    assert values == {*some, "__null__"}
    dropped = some[::3]
    names = tuple(f"p={quote_value(value)}" for value in dropped)
    lived_through(place, names, lambda value: value in dropped)


@pytest.mark.turn
def test_any_path_that_is_taken_lives_through_every_operation(place: Place) -> None:
    place = place.configured()
    appender = Appender(place.table)
    some = place.share(PATHS)
    for first in (0, 6):
        for path in some:
            rows = [{"p": path, "n": n} for n in (first, first + 1)]
            appender.append(pa.Table.from_pylist(rows, KINDS), partition=path)
    assert {info.partition for info in list_partitions(place.table)} == set(some)
    dropped = tuple(some[::3])
    lived_through(place, dropped, lambda path: path in dropped)


def test_a_path_that_cannot_be_is_refused_before_anything_is_written(place: Place) -> None:
    place = place.configured()
    appender = Appender(place.table)
    rows = pa.Table.from_pylist([{"p": "x", "n": 1}], KINDS)
    appender.append(rows, partition="d=1")
    before = [meta.key for meta in place.table.store.list(place.table.paths.prefix)]
    for path in REFUSED:
        error = refusal("partition", appender.append, rows, partition=path)
        assert isinstance(error, UsageError), path
    assert [meta.key for meta in place.table.store.list(place.table.paths.prefix)] == before


def test_a_value_too_long_for_a_folder_is_refused_before_anything_is_written(place: Place) -> None:
    place = place.configured(partition_by=["p"])
    appender = Appender(place.table)
    for value in ("x" * 254, "é" * 50, "\U0001f600" * 30, "x" * 100_000):
        rows = pa.Table.from_pylist([{"p": "fine", "n": 1}, {"p": value, "n": 1}], KINDS)
        error = refusal("255", appender.append, rows)
        assert "bucket" in error.next_step
        assert len(str(error)) < 1_000
    assert not list(place.table.store.list(place.table.paths.prefix))


def test_a_path_too_long_for_the_store_is_one_error_and_leaves_nothing(place: Place) -> None:
    place = place.configured()
    rows = pa.Table.from_pylist([{"p": "x", "n": 1}], KINDS)
    for path in ("d=" + "x" * 300, "/".join(["d=" + "x" * 200] * 20)):
        done = reading("", Appender(place.table).append, rows, partition=path)
        if done is None:
            assert not list(place.table.store.list(place.table.paths.prefix))
        else:
            assert place.rows()[("x", 1)] == 1
            run_drop(Work(place.table, RUN), DropOptions(partitions=(path,)))


@pytest.mark.parametrize(
    "column",
    ["", " ", "'", '"', "a b", "é", "\U0001f600", "a.b", "select", "p=1", "../x", "%", "x" * 80],
)
def test_any_name_of_a_column_may_partition_or_is_refused(tmp_path: Path, column: str) -> None:
    world = make_world(partition_by=["n"], merge={"min_inputs": 2})
    rows = pa.table({column: ["1", "2"], "n": [1, 1]})
    table = world.table
    place = Place(table, tmp_path)
    for _ in range(2):
        if reading("", Appender(table).append, rows) is None:
            assert not [key for key in world.store.objects if "/_log/" in key]
            return
    run_merge(Work(table, RUN, place.engine), MergeOptions())
    assert Counter(row[column] for row in visible_rows(table)) == {"1": 2, "2": 2}


@pytest.mark.parametrize(
    "name",
    ["", ".", "a b", "a/b", "../x", "a'b", "é", "x" * 201, "a\nb", "a\0b", "*", "a=b", "%2F"],
)
def test_a_name_of_a_table_that_a_dag_cannot_have_is_refused(tmp_path: Path, name: str) -> None:
    import yaml

    from firnline.settings.load import load_settings

    path = tmp_path / "tables.yaml"
    path.write_text(yaml.safe_dump({"tables": {name: {"root": "s3://b/t"}}}), encoding="utf-8")
    refusal("is not a table name", partial(load_settings, strict=True), path)
