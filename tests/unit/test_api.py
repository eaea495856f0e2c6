"""The Python interface: what `import firnline` offers, and that it does what the commands do."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    EraseOptions,
    ImportOptions,
    MergeOptions,
    RestoreOptions,
    RewriteOptions,
    VerifyOptions,
    api,
)
from firnline.errors import AssertionFailedError, FirnlineError, NoTableError, UsageError
from firnline.operations.rewrite.prepare import PrepareReport
from firnline.settings.load import TableSettings
from firnline.table import open_table

ROWS = [{"id": n, "c": "ab"[n % 2]} for n in range(10)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"file://{tmp_path}/t"


def ids(table: Any) -> list[int]:
    return sorted(firnline.scan(table).to_arrow()["id"].to_pylist())


def test_every_name_is_there_and_documented() -> None:
    for name in firnline.__all__:
        assert inspect.getdoc(getattr(firnline, name)), name
    functions = {
        n for n, f in vars(api).items() if inspect.isfunction(f) and f.__module__ == api.__name__
    }
    assert {name for name in functions if not name.startswith("_")} <= set(firnline.__all__)
    with pytest.raises(AttributeError, match="no attribute 'mrege'"):
        firnline.mrege  # type: ignore[attr-defined]  # noqa: B018 - type checkers know the names too
    assert set(firnline.__all__) <= set(dir(firnline))


@pytest.mark.long
@pytest.mark.parametrize(
    "written",
    [
        "import firnline; read = firnline.spark.frame",
        "import firnline.spark; read = firnline.spark.frame",
        "from firnline.spark import frame as read",
        "from firnline.spark.frame import frame as read",
        "from firnline.spark.frame import frame; import firnline; read = firnline.spark.frame",
        "import firnline.spark.frame; read = firnline.spark.frame",
        "import firnline; firnline.spark.frame; from firnline.spark.frame import frame as read",
    ],
)
def test_a_frame_is_called_by_every_name_whatever_was_imported_first(written: str) -> None:
    code = f"""
{written}
from firnline.errors import NoTableError
try:
    read(None, "memory://bucket/t", where="a > 1", at=None)
except NoTableError:
    print("called")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "called", done.stderr


def test_what_the_package_for_spark_does_not_have_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"'firnline\.spark' has no attribute 'farme'"):
        firnline.spark.farme  # type: ignore[attr-defined]  # noqa: B018 - type checkers know it too


@pytest.mark.long
def test_opening_a_table_imports_nothing_that_reads_or_writes_rows() -> None:
    # pyarrow takes a third of a second of the first one.
    code = (
        "import sys, firnline; firnline.open_table('memory://t'); print('pyarrow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_function_has_a_typed_signature_and_a_docstring() -> None:
    functions = [getattr(firnline, name) for name in firnline.__all__]
    for function in filter(inspect.isfunction, functions):
        signature = inspect.signature(function)
        given = [*signature.parameters.values()]
        assert all(p.annotation is not p.empty for p in given), function.__name__
        assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given)
        assert signature.return_annotation is not signature.empty, function.__name__
        assert inspect.getdoc(function), function.__name__
    assert firnline.append in functions


def test_append_takes_rows_or_files(root: str, tmp_path: Path) -> None:
    file = tmp_path / "more.parquet"
    pq.write_table(pa.table({"id": [20, 21]}), file)
    assert firnline.append(root, ROWS).rows == 10
    assert firnline.append(root, pl.DataFrame(ROWS), mirror=False).rows == 10
    assert firnline.append(root, [file]).rows == 2
    assert firnline.append(root, file).rows == 2
    assert firnline.append(root, str(file)).rows == 2
    assert firnline.append(root, []).rows == 0
    with pytest.raises(UsageError, match="an object of type int holds no rows"):
        firnline.append(root, 7)


@pytest.mark.long
def test_importing_the_package_imports_none_of_it() -> None:
    code = (
        "import sys, firnline;"
        "print(any(m.startswith(('pyarrow', 'firnline.')) for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.long
@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS).to_reader(),
        pl.DataFrame(ROWS),
        pd.DataFrame(ROWS),
    ],
    ids=["dictionaries", "table", "batch", "reader", "polars", "pandas"],
)
def test_rows_of_every_form_are_appended(root: str, rows: Any) -> None:
    assert firnline.append_rows(root, rows).rows == 10
    assert ids(root) == list(range(10))


def test_dictionaries_may_name_different_columns(root: str) -> None:
    firnline.append_rows(root, [{"id": 1}, {"id": 2, "c": "x"}])
    assert firnline.append_rows(root, [{"c": "y"}, {"id": 3, "n": 1.5}]).new_columns == {
        "n": "DOUBLE"
    }
    rows = {(row["id"], row["c"], row["n"]) for row in firnline.scan(root)}
    assert rows == {(1, None, None), (2, "x", None), (None, "y", None), (3, None, 1.5)}


def test_values_of_dictionaries_take_the_types_of_the_table(root: str) -> None:
    firnline.append_rows(root, pa.table({"id": pa.array([1], pa.int16()), "x": [0.5]}))
    firnline.append_rows(root, [{"id": 2, "x": 3}, {"id": None, "x": None}])
    assert firnline.scan(root).columns == {"id": "SMALLINT", "x": "DOUBLE"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a"], "an object of type str holds no rows that can be appended"),
        ([{"id": 1}, 7], "a row is of type int"),
        ([{"id": 1}, {"id": "x"}], "column 'id' holds a value that does not fit BIGINT"),
        ([{"id": 1.5}], "1.5 is no whole number"),
        ([{"n": 2**70}], "column 'n' holds a value that does not fit one type"),
        ([{"n": object()}], "column 'n' holds a value"),
        ([{1: 2}], "1 is not a column name"),
    ],
)
def test_dictionaries_that_are_no_rows_of_the_table_are_refused(
    root: str, rows: Any, said: str
) -> None:
    firnline.append_rows(root, ROWS)
    with pytest.raises(FirnlineError, match=said):
        firnline.append_rows(root, rows)
    assert ids(root) == list(range(10))


@pytest.mark.parametrize("rows", ["text", 7, {"id": 1}])
def test_what_holds_no_rows_is_refused(root: str, rows: Any) -> None:
    with pytest.raises(UsageError, match=f"an object of type {type(rows).__name__} holds no rows"):
        firnline.append_rows(root, rows)


@pytest.mark.long
def test_a_table_lives_through_the_functions(root: str, tmp_path: Path) -> None:
    for start in (0, 10, 20, 30):
        firnline.append_rows(root, [{"id": start + n, "c": "ab"[n % 2]} for n in range(10)])
    pq.write_table(pa.table({"id": [40], "c": ["z"]}), tmp_path / "more.parquet")
    firnline.append_files(root, [tmp_path / "more.parquet"])
    table = firnline.open_table(root)
    assert firnline.open_table(table) is table
    assert firnline.plan_merge(root).parts_in == 5
    merged = firnline.merge(root)
    assert (merged.counts.parts_in, merged.counts.parts_out) == (5, 1)
    assert firnline.plan_delete(root, "c = 'z'").parts_in == 1
    assert firnline.delete(root, "c = 'z'").counts.rows_deleted == 1
    assert ids(root) == list(range(40))
    firnline.rewrite(root, RewriteOptions(where="id < 30", partitions=("*",)))
    assert ids(root) == list(range(30))
    (newest, *_) = firnline.history(root)
    assert (newest.op, newest.run.run_id[:7]) == ("rewrite", "python-")
    assert not firnline.plan_restore(root, RestoreOptions(to=newest.seq - 1)).nothing_to_do
    firnline.restore(root, RestoreOptions(to=newest.seq - 1))
    assert ids(root) == list(range(40))
    assert firnline.plan_erase(root, EraseOptions(columns=("id",), keys=((5,),))).parts_in == 1
    firnline.erase(root, EraseOptions(columns=("id",), keys=((5,),)))
    assert 5 not in ids(root)
    assert firnline.plan_cleanup(root).nothing_to_do or firnline.cleanup(root) is not None
    report = firnline.verify(root)
    assert report.findings == ()


def objects(root: str) -> dict[str, bytes]:
    """Return all objects of a table."""
    folder = Path(root.removeprefix("file://"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.long
def test_a_rewrite_that_is_prepared_commits_nothing(root: str) -> None:
    firnline.append_rows(root, ROWS)
    options = RewriteOptions(where="id <> 3", prepare=True, assertions=("select true",))
    report = firnline.rewrite(root, options)
    assert isinstance(report, PrepareReport)
    assert report.evidence.removed == 1
    assert report.evidence.assertions == ("select true",)
    assert (ids(root), firnline.history(root)) == (list(range(10)), [])
    (waiting,) = [key for key in objects(root) if key.startswith("_prepared/")]
    assert report.id is not None
    assert report.id in waiting


@pytest.mark.long
def test_a_prepare_whose_assertion_does_not_hold_leaves_nothing(root: str) -> None:
    firnline.append_rows(root, ROWS)
    before = objects(root)
    options = RewriteOptions(where="id <> 3", prepare=True, assertions=("select false",))
    with pytest.raises(AssertionFailedError, match="select false"):
        firnline.rewrite(root, options)
    assert objects(root) == before


@pytest.mark.parametrize(
    "evidence", [{"assertions": ("select false",)}, {"keys": ("id",)}, {"samples": 2}]
)
def test_evidence_of_a_rewrite_that_is_not_prepared_is_refused(
    root: str, evidence: dict[str, Any]
) -> None:
    firnline.append_rows(root, ROWS)
    before = objects(root)
    options = RewriteOptions(where="id <> 3", force=True, **evidence)
    for function in (firnline.rewrite, firnline.plan_rewrite):
        with pytest.raises(UsageError, match="are about what is prepared before it is committed"):
            function(root, options)
    assert objects(root) == before


def test_partitions_go_by_name_and_by_age(tmp_path: Path) -> None:
    settings = {
        "name": "t",
        "root": f"file://{tmp_path}/p",
        "partition_by": ["day(ts)"],
        "ttl": {"keep": "1d"},
    }
    table = open_table(TableSettings.model_validate(settings))
    now = datetime.now(UTC)
    firnline.append_rows(table, [{"ts": now - timedelta(days=n)} for n in (0, 5, 9)])
    names = sorted(p.name for p in (tmp_path / "p/_data").iterdir())
    plan = firnline.plan_drop(table, DropOptions(partitions=(names[0],)))
    assert not plan.nothing_to_do
    assert firnline.drop(table, DropOptions(partitions=(names[0],))).parts == 1
    assert not firnline.plan_ttl(table).nothing_to_do
    assert firnline.ttl(table).parts == 1
    assert firnline.scan(table).to_arrow().num_rows == 1


@pytest.mark.long
def test_a_folder_becomes_a_table_and_its_new_files_are_taken_again_and_again(
    root: str, tmp_path: Path
) -> None:
    folder = f"file://{tmp_path}/in"
    new, told = ImportOptions(source=folder, new=True), list[str]()
    for day in (1, 2):
        (tmp_path / f"in/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), tmp_path / f"in/day={day}/a.parquet")
        assert len(firnline.plan_import_files(root, new).anew) == 1
        report = firnline.import_files(root, new, on_progress=lambda p: told.append(p.text))
        assert (report.plan["files"], report.plan["known"]) == (1, day - 1)
    assert told[0] == "1 of 1 file looked at"
    assert firnline.import_files(root, new).log_file is None
    found = firnline.scan(root).to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "day": 1}, {"id": 2, "day": 2}]
    with pytest.raises(UsageError, match="was imported into this table before"):
        firnline.import_files(root, folder)


def wrong(options: Any, **given: Any) -> Any:
    """Return options as they are given where no types are checked."""
    return options(**given)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        ("merge", {"full": True}, "the options are of type dict; give firnline.MergeOptions"),
        (
            "plan_merge",
            wrong(MergeOptions, partitions="a*"),
            "partitions is not a list of globs: 'a*'",
        ),
        ("plan_merge", wrong(MergeOptions, max_bytes="ten"), "'ten' is not a size"),
        ("plan_merge", MergeOptions(max_bytes=0), "max_bytes is 0, and the least is 1"),
        (
            "rewrite",
            wrong(RewriteOptions, where="id = 1", force="no"),
            "force is neither true nor false",
        ),
        (
            "drop",
            wrong(DropOptions, partitions="p"),
            "partitions is not a list of texts: 'p'",
        ),
        ("drop", "p", "the options are of type str; give firnline.DropOptions"),
        (
            "plan_erase",
            wrong(EraseOptions, columns="id"),
            "columns (--column) is not a list of texts",
        ),
        (
            "plan_restore",
            wrong(RestoreOptions, to="1"),
            "to is not of its type: expected int, got str",
        ),
        ("delete", 5, "the options are of type int; give firnline.DeleteOptions"),
        ("verify", VerifyOptions(sample=7), "a sample is one of the rows of parts"),
        ("verify", VerifyOptions(sample=0), "sample is 0, and the least is 1"),
    ],
)
def test_options_of_another_type_are_refused(
    root: str, function: str, options: Any, said: str
) -> None:
    firnline.append_rows(root, ROWS)
    with pytest.raises(UsageError, match=re.escape(said)):
        getattr(firnline, function)(root, options)
    assert firnline.history(root) == []


@pytest.mark.long
def test_options_take_lists_and_sizes_as_people_write_them(root: str) -> None:
    for _ in range(4):
        firnline.append_rows(root, [{"id": 1}], partition="a=1")
    options = MergeOptions(partitions=["a=*"], max_bytes="1GiB")  # type: ignore[arg-type]
    assert firnline.plan_merge(root, options).parts_in == 4


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (5, "a value of type int names no table"),
        (None, "a value of type NoneType names no table"),
        (Path("/data/t"), "'/data/t' is a path"),
        ("/data/a b", "write file:///data/a b"),
        ("data/t", f"write file://{Path.cwd()}/data/t"),
    ],
)
def test_what_names_no_table_is_refused(table: Any, said: str) -> None:
    for function in (firnline.open_table, firnline.scan, firnline.merge, firnline.history):
        with pytest.raises(UsageError, match=re.escape(said)):
            function(table)


def test_the_settings_file_may_be_given_as_text(tmp_path: Path) -> None:
    settings = tmp_path / "tables.yaml"
    settings.write_text(f"tables: {{t: {{root: 'file://{tmp_path}/t'}}}}")
    table = firnline.open_table("t", settings=str(settings))
    firnline.append_rows(table, ROWS)
    assert ids(table) == list(range(10))
    assert firnline.scan("t", settings=str(settings)).columns == {"id": "BIGINT", "c": "VARCHAR"}


def test_other_arguments_of_another_type_are_refused(root: str) -> None:
    firnline.append_rows(root, ROWS)
    with pytest.raises(UsageError, match="where is of type int"):
        firnline.scan(root, where=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="where is of type int"):
        firnline.changes(root, None, where=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"files is one path, 'a\.parquet'"):
        firnline.append_files(root, "a.parquet")


def test_what_is_returned_shows_itself_in_one_line(root: str) -> None:
    firnline.append_rows(root, ROWS)
    assert repr(firnline.changes(root, None)) == (
        "<Changes of t: steps 1, up to transaction 0, columns id BIGINT, c VARCHAR>"
    )
    assert repr(firnline.plan_cleanup(root)) == "<CleanupPlan: found nothing>"


def test_help_of_options_says_what_they_mean() -> None:
    said = pydoc.plain(pydoc.render_doc(MergeOptions))
    assert "Bring the partitions to the fewest parts now" in said
    assert "in_form" not in said


def test_the_package_knows_its_version() -> None:
    assert firnline.__version__ == version("firnline")


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("merge", MergeOptions(dry_run=True)),
        ("delete", DeleteOptions(where="id = 1", dry_run=True)),
        ("cleanup", CleanupOptions(dry_run=True)),
        ("rewrite", RewriteOptions(where="id = 1", partitions=("*",), dry_run=True)),
    ],
)
def test_a_dry_run_is_never_carried_out(root: str, function: str, options: Any) -> None:
    firnline.append_rows(root, ROWS)
    with pytest.raises(UsageError, match=rf"use firnline\.plan_{function}"):
        getattr(firnline, function)(root, options)
    assert ids(root) == list(range(10))
    assert firnline.history(root) == []


def test_a_history_of_no_transactions_is_refused(root: str) -> None:
    with pytest.raises(UsageError, match="limit is -1, and the least is 1"):
        firnline.history(root, -1)


@pytest.mark.parametrize(
    "call",
    [
        firnline.merge,
        firnline.plan_merge,
        firnline.cleanup,
        firnline.history,
        firnline.verify,
        firnline.scan,
        firnline.ttl,
        lambda table: firnline.delete(table, "a = 1"),
        firnline.publish_mirrors,
        lambda table: firnline.drop(table, DropOptions(partitions=("*",))),
    ],
)
def test_a_root_without_a_table_is_said_to_be_none(root: str, call: Any) -> None:
    with pytest.raises(NoTableError, match="there is no table at"):
        call(root)
