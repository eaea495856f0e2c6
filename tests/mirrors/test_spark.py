"""Spark with the libraries of Delta and Iceberg reads mirrors, and is refused what it may not."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firnline
from firnline.errors import MirrorDamagedError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.head import list_versions
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import run_checks
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    MirrorOptions,
)
from firnline.operations.schema.lazy import run_lazily
from tests.mirrors.conftest import Mirrored, Rows, in_order
from tests.mirrors.in_catalog import CATALOG, InCatalog, in_rest_catalog
from tests.mirrors.lazily import Lazily, delete_of_many
from tests.mirrors.steps import CLEAN_UP, HISTORIES, ROWS, VECTORS, claimed, play
from tools import sparkreaders
from tools.restcatalog import RestCatalog
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
IN_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
LAKE = f"spark.sql.catalog.{CATALOG}"


def in_iceberg(catalog: dict[str, str]) -> dict[str, str]:
    """The settings of a Spark with this catalog."""
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        LAKE: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{LAKE}.{key}": value for key, value in catalog.items()},
    }


def in_sqlite(folder: Path) -> dict[str, str]:
    """The catalog that ``InCatalog`` has in a folder."""
    return {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }


def ask(scratch: Path, conf: dict[str, str], *statements: str) -> list[Any]:
    """The answers of one Spark session."""
    python = sparkreaders.ensure()
    common = {
        "spark.jars": sparkreaders.jars(),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    request, answer = scratch / "request.json", scratch / "answer.pickle"
    request.write_text(json.dumps({"conf": common | conf, "statements": statements}))
    program = Path(__file__).with_name("spark_program.py")
    env = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
    subprocess.run(
        [python, program, request, answer],
        check=True,
        cwd=scratch,
        env={**env, "TZ": "UTC", "PYSPARK_PYTHON": str(python)},
        capture_output=True,
    )
    found: list[Any] = pickle.loads(answer.read_bytes())
    return found


def test_the_page_says_of_spark_what_is_played_here() -> None:
    played = {step.name for steps in HISTORIES for step in steps}
    for reader, rows in (("Spark, Delta", played.union(VECTORS)), ("Spark, Iceberg", played)):
        assert {name for name, cells in claimed().items() if cells[reader] == ROWS} == rows


def reads_every_version(
    mirrored: Mirrored, conf: dict[str, str], newest: Callable[[Any], tuple[str, object]]
) -> None:
    """Play all operations, then read the version after each, and what a clean-up leaves.

    Args:
        mirrored: where; each history is played beside it.
        conf: of Spark.
        newest: the name of a mirrored table in Spark, and its newest version.
    """
    played = [
        (done, newest(done.mirrored), ours(done.mirrored))
        for number, steps in enumerate(HISTORIES)
        for done in play(mirrored.at(f"t{number}"), [step for step in steps if step != CLEAN_UP])
    ]
    asked = [f"SELECT * FROM {name} VERSION AS OF {version}" for _, (name, version), _ in played]
    answers = ask(mirrored.scratch, conf, *asked)
    for (done, _, rows), seen in zip(played, answers, strict=True):
        assert isinstance(seen, list), (done.step.name, seen)
        assert in_order(seen) == rows, done.step.name
        assert [row["k"] for row in rows] == done.keys
    last = played[-1][0].mirrored
    CLEAN_UP.play(last)
    assert last.publish().written
    (seen,) = ask(mirrored.scratch, conf, f"SELECT * FROM {newest(last)[0]}")
    assert in_order(seen) == ours(last)


def history(mirrored: Mirrored) -> None:
    """Appends, a merge, a delete, a new column and wider ones."""
    mirrored.append(0)
    mirrored.append(6)
    run_mirror(Work(mirrored.table(), RUN), MirrorOptions())
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k in (1, 7)"))
    run_mirror(Work(mirrored.table(), RUN), MirrorOptions())
    mirrored.append(12, 3, later=2.5)
    run_lazily(Work(mirrored.table(), RUN), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})))
    run_mirror(Work(mirrored.table(), RUN), MirrorOptions())


def ours(mirrored: Mirrored) -> Rows:
    found = in_order(firnline.scan(mirrored.table()).to_arrow().to_pylist())
    return [{**row, "at": row["at"].replace(tzinfo=None)} for row in found]


def parts(mirrored: Mirrored) -> set[str]:
    table = mirrored.table()
    return {meta.key for meta in table.store.list(table.paths.data_dir)}


@pytest.fixture
def folder(tmp_path: Path) -> StoreRoot:
    (tmp_path / "store").mkdir()
    return StoreRoot("file", f"file://{tmp_path}/store")


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_reads_the_delta_mirror_and_does_not_write_to_it(
    folder: StoreRoot, tmp_path: Path
) -> None:
    mirrored = Mirrored(folder, tmp_path)
    history(mirrored)
    before, name = parts(mirrored), f"delta.`{mirrored.url}`"
    writes = [
        f"INSERT INTO {name} SELECT * FROM {name}",
        f"DELETE FROM {name} WHERE k = 2",
        f"UPDATE {name} SET k = 5 WHERE k = 2",
        f"OPTIMIZE {name}",
        f"ALTER TABLE {name} ADD COLUMN other INT",
    ]
    vacuums = [f"VACUUM {name} RETAIN 0 HOURS", f"VACUUM {name} LITE RETAIN 0 HOURS"]
    rows, some, *answers, again = ask(
        tmp_path,
        IN_DELTA,
        f"SELECT * FROM {name}",
        f"SELECT k FROM {name} WHERE price > 2 AND k < 13",
        *writes,
        *vacuums,
        f"SELECT * FROM {name}",
    )
    assert in_order(rows) == ours(mirrored) == in_order(again)
    assert {row["k"] for row in some} == {9, 10, 11, 12}
    for statement, answer in zip([*writes, *vacuums], answers, strict=True):
        assert isinstance(answer, str), statement
        assert "firnline" in answer, (statement, answer)
    assert parts(mirrored) == before
    assert run_checks(mirrored.table()).same


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_reads_the_version_of_every_operation(folder: StoreRoot, tmp_path: Path) -> None:
    def newest(mirrored: Mirrored) -> tuple[str, int]:
        listing = list_versions(mirrored.table().store, mirrored.table().paths)
        return f"delta.`{mirrored.url}`", listing.versions[-1].number

    reads_every_version(Mirrored(folder, tmp_path), IN_DELTA, newest)


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_reads_the_snapshot_of_every_operation(folder: StoreRoot, tmp_path: Path) -> None:
    def newest(mirrored: InCatalog) -> tuple[str, int | None]:
        shown = mirrored.shown().metadata
        return f"{CATALOG}.{mirrored.name}", shown.current_snapshot_id

    reads_every_version(InCatalog(folder, tmp_path), in_iceberg(in_sqlite(tmp_path)), newest)


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_sees_no_row_that_a_deletion_vector_hides(tmp_path: Path) -> None:
    few, many = (
        Lazily(StoreRoot("file", f"file://{tmp_path}/{name}"), tmp_path) for name in ("a", "b")
    )
    few.append(0)
    few.delete("k in (1, 4)")
    few.publish()
    few.append(6)
    few.delete("k = 2 or k = 7")
    few.append(12, 3, later=2.5)
    run_lazily(Work(few.table(), RUN), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})))
    few.delete("later is null and k = 9")
    few.replace(10, 12, 11)
    assert few.publish().vectors
    delete_of_many(many)
    assert many.publish().vectors == 1
    older, rows, keys = ask(
        tmp_path,
        IN_DELTA,
        f"SELECT k FROM delta.`{few.url}` VERSION AS OF 0",
        f"SELECT * FROM delta.`{few.url}`",
        f"SELECT k FROM delta.`{many.url}`",
    )
    assert sorted(row["k"] for row in older) == [0, 2, 3, 5]
    assert in_order(rows) == ours(few)
    assert [row["k"] for row in rows if row["k"] in {1, 2, 4, 7, 9, 10}] == []
    assert in_order(keys) == many.ours_of("k")


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_reads_the_iceberg_mirror_and_deletes_no_file_of_it(
    folder: StoreRoot, tmp_path: Path
) -> None:
    reads_and_deletes_nothing(InCatalog(folder, tmp_path), in_sqlite(tmp_path))


@pytest.mark.full("it downloads another Spark, and starts it")
def test_spark_reads_the_same_through_a_rest_catalog(
    rest_server: RestCatalog, tmp_path: Path
) -> None:
    mirrored = in_rest_catalog(rest_server.uri, tmp_path)
    reads_and_deletes_nothing(mirrored, {"type": "rest", "uri": rest_server.uri})


def reads_and_deletes_nothing(mirrored: InCatalog, catalog: dict[str, str]) -> None:
    """Check it, in a Spark with this configuration of the catalog."""
    history(mirrored)
    before, name, scratch = parts(mirrored), f"{CATALOG}.{mirrored.name}", mirrored.scratch
    conf = in_iceberg(catalog)
    system, table = f"CALL {CATALOG}.system", mirrored.name
    refused = [
        f"{system}.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01')",
        f"{system}.remove_orphan_files(table => '{table}')",
        f"DROP TABLE {name} PURGE",
    ]
    snapshot = mirrored.shown().metadata.current_snapshot_id
    rows, some, count, *answers, written, back = ask(
        scratch,
        conf,
        f"SELECT * FROM {name}",
        f"SELECT k FROM {name} WHERE price > 2 AND k < 13",
        f"SELECT count(*) AS n FROM {name}",
        *refused,
        f"INSERT INTO {name} SELECT * FROM {name} WHERE k = 3",
        f"SELECT count(*) AS n FROM {name}",
    )
    assert isinstance(rows, list), rows
    assert in_order(rows) == ours(mirrored)
    assert {row["k"] for row in some} == {9, 10, 11, 12}
    assert count == [{"n": len(rows)}]
    for statement, answer in zip(refused, answers, strict=True):
        assert isinstance(answer, str), statement
        assert "GC is disabled" in answer, (statement, answer)
    assert parts(mirrored) == before
    # No property makes Spark refuse an INSERT: firnline sees it and says how to go on.
    assert written == []
    assert back == [{"n": len(rows) + 1}]
    with pytest.raises(MirrorDamagedError, match="firnline did not write") as caught:
        mirrored.publish()
    assert f"roll it back to snapshot {snapshot}" in str(caught.value.next_step)
    ask(scratch, conf, f"{system}.rollback_to_snapshot('{table}', {snapshot})")
    mirrored.append(20)
    assert mirrored.publish().written
    (rows,) = ask(scratch, conf, f"SELECT * FROM {name}")
    assert in_order(rows) == ours(mirrored)
