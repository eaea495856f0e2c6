"""Who commits publishes: for few requests, and never at the expense of what was committed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from firnline.commit.base import read_base
from firnline.errors import MirrorDamagedError, UsageError
from firnline.operations.mirror import after, run
from firnline.operations.mirror.check import run_check
from firnline.table import Table
from tests.support.mirrored_folder import damage, mirrored, versions

KINDS = ("get", "put", "list", "head", "delete", "retries")


@pytest.mark.long
def test_rows_and_files_are_in_the_mirror_when_their_append_returns(tmp_path: Path) -> None:
    table = mirrored(tmp_path)
    first = firnline.append_rows(table, [{"n": 1}], mirror=True)
    assert first.mirror is not None
    assert (first.mirror.published, first.mirror.error) == (True, None)
    assert (
        first.mirror.said == "The Delta mirror of t has a new version: 1 file more, 0 files less."
    )
    assert "mirror The Delta mirror" in repr(first)
    pq.write_table(pa.table({"n": [2]}), tmp_path / "new.parquet")
    firnline.append_files(table, [tmp_path / "new.parquet"], mirror=True)
    assert versions(tmp_path) == 2
    assert run_check(table).same
    assert firnline.append_rows(table, [{"n": 3}]).mirror is None
    assert versions(tmp_path) == 2


def test_a_publication_is_three_requests_besides_those_that_read_the_log(tmp_path: Path) -> None:
    firnline.append_rows(mirrored(tmp_path), [{"n": 1}], mirror=True)
    alone = firnline.append_rows(mirrored(tmp_path), [{"n": 2}])
    result = firnline.append_rows(mirrored(tmp_path), [{"n": 3}], mirror=True)
    assert {k: result.requests[k] for k in KINDS} == {k: alone.requests[k] for k in KINDS} | {
        "get": alone.requests["get"] + 1  # the head of the log file between the two
    }
    table = mirrored(tmp_path)
    read_base(table)
    read = table.store.counters.as_dict()
    assert result.mirror is not None
    besides = {kind: result.mirror.requests[kind] - read[kind] for kind in KINDS}
    assert besides == {"get": 1, "put": 1, "list": 1, "head": 0, "delete": 0, "retries": 0}


@pytest.mark.long
def test_an_append_stands_though_its_mirror_cannot_be_published_and_the_next_one_shows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = mirrored(tmp_path)
    firnline.append_rows(table, [{"n": 1}], mirror=True)
    was = damage(tmp_path)
    with caplog.at_level(logging.WARNING):
        result = firnline.append_rows(table, [{"n": 2}], mirror=True)
    assert result.rows == 1
    assert result.mirror is not None
    assert isinstance(result.mirror.error, MirrorDamagedError)
    assert not result.mirror.published
    (record,) = caplog.records
    assert record.getMessage() == result.mirror.said
    assert "the mirror of t was not published: " in result.mirror.said
    assert "what was committed stands, and the next publication shows it" in result.mirror.said
    (tmp_path / "t/_delta_log" / f"{0:020d}.json").write_text(was)
    again = firnline.append_rows(table, [{"n": 3}], mirror=True)
    assert again.mirror is not None
    assert "2 files more" in again.mirror.said
    assert firnline.scan(table).to_arrow().num_rows == 3


def test_a_bug_of_a_publication_is_logged_with_its_traceback_and_is_no_failure_of_the_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(after, "run_mirror", fails)
    result = firnline.append_rows(mirrored(tmp_path), [{"n": 1}], mirror=True)
    assert result.mirror is not None
    assert "was not published: ZeroDivisionError: by nothing; " in result.mirror.said
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is result.mirror.error


def test_an_interrupt_of_a_publication_says_that_the_append_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(after, "run_mirror", interrupted)
    table = mirrored(tmp_path)
    with pytest.raises(KeyboardInterrupt) as caught:
        firnline.append_rows(table, [{"n": 1}], mirror=True)
    (note,) = caught.value.__notes__
    assert note.startswith("the append stands: its log file t/_log/")
    assert firnline.scan(table).to_arrow().num_rows == 1


CHANGES: dict[str, Callable[[Table], object]] = {
    "merge": lambda table: firnline.merge(table, firnline.MergeOptions(full=True)),
    "delete": lambda table: firnline.delete(table, "n = 1"),
    "rewrite": lambda table: firnline.rewrite(
        table, firnline.RewriteOptions(partitions=("*",), where="n > 1")
    ),
    "erase": lambda table: firnline.erase(
        table, firnline.EraseOptions(columns=("n",), keys=((1,),))
    ),
    "drop": lambda table: firnline.drop(
        table, firnline.DropOptions(partitions=("t_day=2020-01-01",))
    ),
    "ttl": firnline.ttl,
    "restore": lambda table: firnline.restore(table, firnline.RestoreOptions(to=0)),
}


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_a_function_that_commits_publishes_and_its_plan_does_not(
    tmp_path: Path, change: str
) -> None:
    ttl = {"keep": "1d", "max_removed_fraction": 1}
    table = mirrored(tmp_path, partition_by=["day(t)"], ttl=ttl)
    row = {"t": datetime(2020, 1, 1), "n": 1}  # noqa: DTZ001 - a column without a zone
    firnline.append_rows(table, [row, {**row, "n": 2}], mirror=True)
    firnline.append_rows(table, [{**row, "n": 3}], mirror=True)
    if change == "restore":
        firnline.delete(table, "n = 3")
    before = versions(tmp_path)
    firnline.plan_merge(table, firnline.MergeOptions(full=True))
    assert versions(tmp_path) == before
    CHANGES[change](table)
    assert versions(tmp_path) == before + 1
    assert run_check(table).same


@pytest.mark.long
def test_a_change_that_only_the_table_says_to_mirror_is_published_and_a_plain_one_is_not(
    tmp_path: Path,
) -> None:
    firnline.append_rows(mirrored(tmp_path), [{"n": 1}, {"n": 2}], mirror=True)
    firnline.delete(f"file://{tmp_path}/t", "n = 1")
    assert versions(tmp_path) == 2
    plain = f"file://{tmp_path}/plain"
    firnline.append_rows(plain, [{"n": 1}, {"n": 2}])
    firnline.delete(plain, "n = 1")
    assert not (tmp_path / "plain/_delta_log").exists()


def test_a_change_stands_though_its_mirror_cannot_be_published_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = mirrored(tmp_path)
    firnline.append_rows(table, [{"n": 1}, {"n": 2}], mirror=True)
    was = damage(tmp_path)
    with caplog.at_level(logging.WARNING):
        report = firnline.delete(table, "n = 1")
    assert report.transaction == 1
    (record,) = caplog.records
    assert "the mirror of t was not published: " in record.getMessage()
    (tmp_path / "t/_delta_log" / f"{0:020d}.json").write_text(was)
    done = firnline.publish_mirrors(table)
    assert done.delta is not None
    assert (done.delta.adds, done.delta.removes) == (1, 1)
    assert not firnline.publish_mirrors(table).delta.written  # type: ignore[union-attr]


def test_an_interrupt_of_a_publication_says_that_the_commit_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    table = mirrored(tmp_path)
    firnline.append_rows(table, [{"n": 1}, {"n": 2}])
    monkeypatch.setattr(after, "run_mirror", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        firnline.delete(table, "n = 1")
    assert caught.value.__notes__ == [
        "what was committed stands, and the next publication of the mirror shows it"
    ]


def test_a_mirror_that_waits_is_no_failure_and_not_published(tmp_path: Path) -> None:
    table = mirrored(tmp_path)
    firnline.append_rows(table, [{"n": 1}, {"n": 2}], mirror=True)
    firnline.delete(table, firnline.DeleteOptions(where="n = 1", mode="lazy"))
    waits = firnline.append_rows(table, [{"n": 3}], mirror=True).mirror
    assert waits is not None
    assert (waits.published, waits.error) == (False, None)
    assert "waits: deletes may hide rows of 1 of its parts" in waits.said


def test_an_append_to_a_table_without_a_mirror_is_refused_and_one_of_no_row_publishes_nothing(
    tmp_path: Path,
) -> None:
    plain = mirrored(tmp_path, mirror=[])
    said = "name no mirror, and mirror=True would publish it"
    with pytest.raises(UsageError, match=said):
        firnline.append_rows(plain, [{"n": 1}], mirror=True)
    with pytest.raises(UsageError, match=said):
        firnline.append_files(plain, [], mirror=True)
    assert not (tmp_path / "t").exists()
    none = firnline.append_rows(
        mirrored(tmp_path), pa.table({"n": pa.array([], pa.int64())}), mirror=True
    )
    assert (none.log_key, none.mirror) == (None, None)


def test_neither_deltalake_nor_pyiceberg_is_needed_for_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [m for m in sys.modules if m.partition(".")[0] in ("deltalake", "pyiceberg")]:
        monkeypatch.delitem(sys.modules, name)
    for package in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, package, None)  # its import fails
    result = firnline.append_rows(mirrored(tmp_path), [{"n": 1}], mirror=True)
    assert result.mirror is not None
    assert result.mirror.published


def test_what_readers_do_not_cope_with_is_in_the_result_and_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "MOST_VECTORS", 0)
    table = mirrored(tmp_path, mirror=[{"delta": {"deletes": "vectors"}}], deletes="lazy")
    firnline.append_rows(table, [{"n": 1}, {"n": 2}], mirror=True)
    firnline.delete(table, firnline.DeleteOptions(where="n = 1"))
    with caplog.at_level(logging.WARNING):
        found = firnline.append_rows(table, [{"n": 3}], mirror=True).mirror
    assert found is not None
    assert found.published
    (warning,) = found.warnings
    assert "1 parts have deletion vectors" in warning
    assert warning in caplog.text
