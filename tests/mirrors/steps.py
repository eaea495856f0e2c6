"""The operations after which every engine has to see the rows of the table, and who reads them.

``docs/testing.md`` has a table of readers and operations. The tests read it: a cell that says
``rows`` is played, and has to be true; a row or a column that no test knows is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import SchemaConflictError
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.clone.run import run_clone
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.erase.run import run_erase
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import run_checks
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    CloneOptions,
    ColumnFix,
    DeleteOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    MirrorOptions,
    RebuildOptions,
    RelocateOptions,
    RepartitionOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    TtlOptions,
)
from firnline.operations.prepared.run import commit_prepared
from firnline.operations.properties.run import run_apply
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.relocate.run import run_relocate
from firnline.operations.repartition.run import run_repartition
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.types.arrow import from_arrow
from tests.mirrors import in_duckdb
from tests.mirrors.conftest import Mirrored
from tests.support.histories import parquet_bytes
from tools.bootstrap import REPO

RUN = RunIdentity(run_id="r")
DELTA = ("deltalake", "DataFusion", "Polars", "DuckDB, Delta")
ICEBERG = ("pyiceberg", "Polars, Iceberg", "DuckDB, Iceberg")
SPARK = ("Spark, Delta", "Spark, Iceberg")
"""Columns that ``test_spark`` plays."""
VECTORS = ("lazy delete, by vectors", "lazy replace, by vectors")
"""Rows of the table that ``test_vectors`` plays."""
ROWS, REFUSED, NOT_TESTED = "rows", "refused", "-"


def claimed() -> dict[str, dict[str, str]]:
    """The table of the page: operation -> reader -> cell."""
    text = (REPO / "docs" / "testing.md").read_text(encoding="utf-8")
    lines = text.split("### Readers and operations\n", 1)[1].split("\n#", 1)[0].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    (_, *readers), _, *rows = cells
    return {name: dict(zip(readers, found, strict=True)) for name, *found in rows}


def readers_of(operation: str) -> set[str]:
    """The readers that the page says to show the rows after an operation."""
    return {reader for reader, cell in claimed()[operation].items() if cell == ROWS}


def append(mirrored: Mirrored) -> None:
    for first in (0, 6, 12):
        mirrored.append(first)


def merge(mirrored: Mirrored) -> None:
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))


def delete(mirrored: Mirrored) -> None:
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k in (1, 7)"))


def rewrite(mirrored: Mirrored) -> None:
    run_rewrite(
        Work(mirrored.table(), RUN, mirrored.engine), RewriteOptions(where="k <> 8", force=True)
    )


def replace_(mirrored: Mirrored) -> None:
    interval = ReplaceOptions(column="k", start=2, end=4)
    run_replace(Work(mirrored.table(), RUN, mirrored.engine), interval, data=mirrored.made(2, 1))


def drop(mirrored: Mirrored) -> None:
    found = read_snapshot(mirrored.table().store, mirrored.table().paths).partitions
    mine = next(name for name in found if name.startswith("ts_day=2024-03-05/p=a%20b"))
    run_drop(Work(mirrored.table(), RUN), DropOptions(partitions=(mine,)))


def erase(mirrored: Mirrored) -> None:
    run_erase(
        Work(mirrored.table(), RUN, mirrored.engine), EraseOptions(columns=("k",), keys=((5,),))
    )


def new_column(mirrored: Mirrored) -> None:
    mirrored.append(18, 3, later=2.5)


def widen(mirrored: Mirrored) -> None:
    run_lazily(Work(mirrored.table(), RUN), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})))


def rename(mirrored: Mirrored) -> None:
    evolution = Evolution(rename={"raw": "bytes"}, drop=("flag",))
    run_schema_fix(
        Work(mirrored.table(), RUN, mirrored.engine), SchemaFixOptions(evolution=evolution)
    )


def restore(mirrored: Mirrored) -> None:
    """What readers saw go comes back."""
    table = mirrored.table()
    before = read_snapshot(table.store, table.paths).seq
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k > 9"))
    run_mirror(Work(mirrored.table(), RUN), MirrorOptions())
    run_restore(Work(mirrored.table(), RUN), RestoreOptions(to=before))


def prepared_rewrite(mirrored: Mirrored) -> None:
    table = mirrored.table()
    options = RewriteOptions(where="k <> 9", force=True, prepare=True)
    change = run_prepare(Work(table, RUN, mirrored.engine), options).id
    assert change is not None
    commit_prepared(table, change, RUN)


def lazy_replace(mirrored: Mirrored) -> None:
    """The mirror waits for the merge: the old rows lie in parts that live on."""
    interval = ReplaceOptions(column="k", start=10, end=13, mode="lazy")
    run_replace(Work(mirrored.table(), RUN, mirrored.engine), interval, data=mirrored.made(11, 1))
    assert mirrored.publish().hold is not None
    merge(mirrored)


def merge_with_a_query(mirrored: Mirrored) -> None:
    """Rows are other ones after it."""
    Appender(mirrored.table()).append(mirrored.made(21, 6))
    query = "select * replace (concat(s, '!') as s) from source_files"
    table = mirrored.table(merge={"sql": query})
    run_merge(Work(table, RUN, mirrored.engine), MergeOptions(full=True))
    assert any(row["s"].endswith("!") for row in mirrored.ours())


def ttl(mirrored: Mirrored) -> None:
    run_ttl(Work(mirrored.table(ttl={"keep": "30d"}), RUN), TtlOptions(force=True))


def import_(mirrored: Mirrored) -> None:
    """A file that is copied, and one that spans partitions."""
    table = mirrored.table()
    parent = table.paths.prefix.rpartition("/")[0]
    for name, rows in (("one", mirrored.made(30, 1)), ("span", mirrored.made(31, 5))):
        table.store.put_new(f"{parent}/in/{name}.parquet".lstrip("/"), parquet_bytes(rows))
    folder = ImportOptions(source=f"{mirrored.root.url}/in", split=True)
    run_import(Work(table, engine=mirrored.engine), folder)


def repartition(mirrored: Mirrored) -> Mirrored:
    by_day = mirrored.with_settings(partition_by=["day(ts)"])
    run_apply(by_day.table(), RUN)
    run_repartition(Work(by_day.table(), RUN, by_day.engine), RepartitionOptions())
    return by_day


def fix_of_a_type(mirrored: Mirrored) -> None:
    """A client of version 1 has appended texts to a column of numbers."""
    rows = mirrored.made(42, 1)
    texts = rows.set_column(rows.column_names.index("ratio"), "ratio", pa.array(["2.5"]))
    append_as_version_1(mirrored.table(), texts, "ts_day=2024-03-13")
    fix = SchemaFixOptions(fixes=(ColumnFix(column="ratio", type="DOUBLE"),))
    with pytest.raises(SchemaConflictError):
        mirrored.publish()
    run_schema_fix(Work(mirrored.table(), RUN, mirrored.engine), fix)


def rebuild(mirrored: Mirrored) -> None:
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k = 31"))
    table = mirrored.table()
    logs = [meta.key for meta in table.store.list(table.paths.log_dir)]
    assert all(gone.error is None for gone in table.store.delete_many(logs))
    run_rebuild(Work(mirrored.table(), RUN), RebuildOptions())


def clone(mirrored: Mirrored) -> Mirrored:
    cloned = mirrored.at("cloned")
    run_clone(Work(mirrored.table(), RUN), CloneOptions(), target=cloned.table())
    return cloned


def relocation(mirrored: Mirrored) -> Mirrored:
    """Of a copy that another tool has made, its mirror included."""
    Appender(mirrored.table()).append(mirrored.made(50, 1))
    copy = mirrored.at("copied")
    old, new = mirrored.table(), copy.table()
    for meta in old.store.list(f"{old.paths.prefix}/"):
        old.store.copy(meta.key, new.paths.prefix + meta.key.removeprefix(old.paths.prefix))
    run_relocate(Work(new), RelocateOptions())
    return copy


class Later(SystemClock):
    """The clock of a month later."""

    def now_ms(self) -> int:
        return super().now_ms() + 30 * 86_400_000


def clean_up(mirrored: Mirrored) -> None:
    """The parts that only former versions show are gone."""
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k = 34"))
    assert mirrored.publish().written
    done = run_cleanup(Work(replace(mirrored.table(), clock=Later()), RUN), CleanupOptions())
    assert done.parts


def append_as_version_1(table: Table, rows: pa.Table, partition: str) -> None:
    """A part, and the log file of a client that looks at no other one."""
    t, data = table.clock.now_ms(), parquet_bytes(rows)
    key = table.paths.data_part(partition, table.ids.uuid7(t))
    table.store.put_new(key, data)
    lines = [
        {"v": "1", "t": t, "sch": 1, "f": 2},
        from_arrow(rows.schema),
        {"p": key, "b": len(data), "t": t},
    ]
    log_file = "\n".join(map(json.dumps, lines)).encode()
    table.store.put_new(f"{table.paths.log_dir}{t}_other.jsonl", log_file)


@dataclass(frozen=True)
class Step:
    """One operation, and the keys that are there after it."""

    name: str
    play: Callable[[Mirrored], Mirrored | None]
    """Returns the table to go on with, if it is another one."""
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()
    replayed: bool = False
    """The publication after it reads the mirror, as the log no longer tells the difference."""


APPEND = Step("append", append, come=tuple(range(18)))
CLEAN_UP = Step("clean-up, newest version", clean_up, gone=(34,))
HISTORIES = (
    (
        APPEND,
        Step("merge", merge),
        Step("delete", delete, gone=(1, 7)),
        Step("rewrite", rewrite, gone=(8,)),
        Step("replace", replace_, gone=(3,)),
        Step("drop of partitions", drop, gone=(0,)),
        Step("erase", erase, gone=(5,)),
        Step("new column", new_column, come=(18, 19, 20)),
        Step("wider type", widen),
        Step("rename and drop of columns", rename),
        Step("restore", restore),
        Step("TTL", ttl, gone=tuple(range(21))),
    ),
    (
        APPEND,
        Step("prepared rewrite, committed", prepared_rewrite, gone=(9,)),
        Step("merge with a query (`merge.sql`)", merge_with_a_query, come=tuple(range(21, 27))),
        Step("lazy replace, and its merge", lazy_replace, gone=(10, 12)),
        Step("import", import_, come=tuple(range(30, 36))),
        Step("repartition", repartition),
        Step("repair of a type (`schema fix`)", fix_of_a_type, come=(42,)),
        Step("rebuild", rebuild, gone=(31,), replayed=True),
        Step("clone", clone),
        Step("relocation", relocation, come=(50,)),
        CLEAN_UP,
    ),
)
"""Each is played on a table of its own."""


@dataclass(frozen=True)
class Played:
    """What one step has left behind."""

    step: Step
    keys: list[int]
    mirrored: Mirrored
    """The table and its mirror after it."""


def play(mirrored: Mirrored, steps: Sequence[Step]) -> Iterator[Played]:
    """Play them, one after the other, and publish after each."""
    keys: set[int] = set()
    for step in steps:
        mirrored = step.play(mirrored) or mirrored
        keys = keys.difference(step.gone).union(step.come)
        done = mirrored.publish()
        assert (done.written, done.replayed) == (True, step.replayed), step.name
        yield Played(step, sorted(keys), mirrored)


def check_every_cell(mirrored: Mirrored, steps: Sequence[Step], columns: Sequence[str]) -> None:
    """Play the operations: what the page says of these columns is so."""
    for played in play(mirrored, steps):
        operation, ours = played.step.name, played.mirrored.ours()
        assert [row["k"] for row in ours] == played.keys, operation
        assert run_checks(played.mirrored.table()).same, operation
        readers = readers_of(operation).intersection(columns)
        seen = played.mirrored.seen(readers)
        assert {name.split(", by_")[0] for name in seen} == readers - in_duckdb.absent(), operation
        for reader, rows_seen in seen.items():
            assert rows_seen == ours, (operation, reader)
    in_duckdb.skip_if_absent()
