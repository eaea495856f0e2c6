"""A mirror through a REST catalog: Iceberg's own server, behind a proxy that breaks requests."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from firnline.commit.base import read_base
from firnline.errors import (
    MirrorCatalogError,
    MirrorDamagedError,
    MirrorRefusedError,
    SnapshotUnstableError,
)
from firnline.log.txn_file import RunIdentity
from firnline.mirror.iceberg import rest
from firnline.mirror.iceberg.publish import publish
from firnline.mirror.iceberg.shown import list_records
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import check_iceberg
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RestoreOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.restore.run import run_restore
from tests.mirrors.in_catalog import InCatalog, by_pyiceberg, in_rest_catalog
from tests.store.faultproxy import Fault, FaultProxy, Request, whole_answer
from tests.support.effort import sample

RUN = RunIdentity(run_id="r")
TOKEN = "a-token-of-nobody"
EVER = 1_000_000
FIRST = ["GET config", "GET t", "GET t", "HEAD namespace", "POST namespaces", "POST t"]
"""Requests of the publication that makes the table."""


@pytest.fixture
def mirrored(rest_proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InCatalog:
    """A table on disk, with a namespace of its own in the catalog."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    return in_rest_catalog(rest_proxy.endpoint, tmp_path)


def shown(mirrored: InCatalog) -> list[int]:
    """The mirror shows what the table holds, after one publication. Returns the keys."""
    assert mirrored.publish().written
    assert check_iceberg(mirrored.table()).same
    return [row["k"] for row in mirrored.same()]


def test_engines_see_every_operation(mirrored: InCatalog) -> None:
    mirrored.append(0)
    assert shown(mirrored) == list(range(6))
    mirrored.append(6)
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    assert shown(mirrored) == list(range(12))
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k > 2"))
    assert shown(mirrored) == [0, 1, 2]
    run_restore(Work(mirrored.table(), RUN), RestoreOptions(to=0))
    assert shown(mirrored) == list(range(12))
    mirrored.append(12, 2, later=2.5)
    assert shown(mirrored) == list(range(14))
    assert not mirrored.publish().written


def test_the_server_numbers_sort_orders_as_files_name_them(mirrored: InCatalog) -> None:
    mirrored.append(0)
    named: list[set[int | None]] = []
    for sort_by in (["k"], ["p", "k desc"], ["k"], []):
        now = replace(mirrored, settings={**mirrored.settings, "sort_by": sort_by})
        run_apply(now.table(), RUN)
        now.append(0)
        run_merge(Work(now.table(), RUN, now.engine), MergeOptions(full=True))
        shown(now)
        table = now.shown()
        columns = [table.schema().find_column_name(f.source_id) for f in table.sort_order().fields]
        assert columns == [text.removesuffix(" desc") for text in sort_by]
        named.append({task.file.sort_order_id for task in table.scan().plan_files()})
    assert named == [{1}, {2}, {1}, {None}]


def commits(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/tables/t")


def test_a_publication_is_three_requests_of_the_catalog(
    mirrored: InCatalog, rest_proxy: FaultProxy
) -> None:
    asked = ["GET config", "GET t", "POST t"]
    for number, expected in enumerate((FIRST, asked, asked)):
        mirrored.append(6 * number)
        began, table = len(rest_proxy.seen), mirrored.table()
        read_base(table)
        read = table.store.counters.as_dict()
        publish(table)
        whole = table.store.counters.as_dict()
        besides = {kind: whole[kind] - 2 * read[kind] for kind in ("get", "put", "list")}
        assert number == 0 or besides == {"get": 1, "put": 3, "list": 1}
        found = [f"{r.method} {r.path.rpartition('/')[2]}" for r in rest_proxy.seen[began:]]
        namespace = mirrored.name.partition(".")[0]
        assert [each.replace(namespace, "namespace") for each in found] == expected


def test_publishers_at_once_show_every_append(mirrored: InCatalog) -> None:
    def work(number: int) -> int:
        mirrored.append(10 * number, 2)
        try:
            return mirrored.publish().lost_races
        except SnapshotUnstableError:
            return 1

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(4)))
    mirrored.publish()
    assert check_iceberg(mirrored.table()).same
    assert len(mirrored.same()) == 8


def test_what_another_engine_committed_is_found(mirrored: InCatalog) -> None:
    mirrored.append(0)
    mirrored.publish()
    theirs = mirrored.shown()
    ours = theirs.metadata.current_snapshot_id
    assert ours is not None
    theirs.append(theirs.scan(row_filter="k = 3").to_arrow())
    mirrored.append(6)
    with pytest.raises(MirrorDamagedError, match="firnline did not write") as caught:
        mirrored.publish()
    assert f"roll it back to snapshot {ours}" in str(caught.value.next_step)
    mirrored.shown().manage_snapshots().rollback_to_snapshot(ours).commit()
    assert shown(mirrored) == list(range(12))


def test_the_mirror_of_another_table_stays_as_it_is(mirrored: InCatalog, tmp_path: Path) -> None:
    mirrored.append(0)
    mirrored.publish()
    (tmp_path / "other").mkdir()
    other = replace(in_rest_catalog(mirrored.rest, tmp_path / "other"), name=mirrored.name)
    other.append(6)
    with pytest.raises(MirrorRefusedError, match=f"it is one of {mirrored.url}"):
        other.publish()
    assert check_iceberg(mirrored.table()).same


def said(status: int) -> bytes:
    body = json.dumps({"error": {"message": "no", "type": "ServerError", "code": status}})
    return whole_answer(status, body.encode())


@dataclass(frozen=True)
class Lost:
    """A way in which the answer of a commit gets lost, or its request."""

    name: str
    fault: Fault
    answer: bytes = b""
    took: bool = True
    """The catalog has taken the snapshot all the same."""

    def __str__(self) -> str:
        return self.name


LOST = [
    Lost("connection breaks before", "reset", took=False),
    Lost("connection breaks after", "lose-answer"),
    Lost("500", "fail-after", said(500)),
    Lost("503 that is no JSON", "fail-after"),
    Lost("504", "fail-after", said(504)),
    Lost("conflict with itself", "fail-after", said(409)),
    Lost("half an answer", "cut-body"),
]


@pytest.mark.parametrize("lost", sample(LOST, 4, "lost answers of a REST catalog"), ids=str)
def test_after_the_lost_answer_of_a_commit_the_next_run_goes_on(
    mirrored: InCatalog, rest_proxy: FaultProxy, lost: Lost
) -> None:
    def merge() -> None:
        run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))

    mirrored.append(0)
    mirrored.append(6)
    # The commit that makes the table, and a later one.
    for number, change in enumerate((lambda: None, merge)):
        change()
        rest_proxy.add(lost.fault, commits, answer=lost.answer)
        if lost.name == "conflict with itself":
            assert not mirrored.publish().written
        else:
            with pytest.raises(MirrorCatalogError, match="catalog lake does not answer"):
                mirrored.publish()
            assert len(records(mirrored)) == number
            assert mirrored.publish().written != lost.took
        assert len(records(mirrored)) == number + 1
        assert check_iceberg(mirrored.table()).same
        assert len(mirrored.shown().metadata.snapshots) == number + 1
        assert len(by_pyiceberg(mirrored.shown(), {})) == 12


def records(mirrored: InCatalog) -> list[int]:
    table = mirrored.table()
    return [record.seq for record in list_records(table.store, table.paths).shown]


def test_a_rival_goes_on_from_a_commit_whose_answer_was_lost(
    mirrored: InCatalog, rest_proxy: FaultProxy
) -> None:
    mirrored.append(0)
    mirrored.publish()
    mirrored.append(6)
    rest_proxy.add("lose-answer", commits)
    with pytest.raises(MirrorCatalogError):
        mirrored.publish()
    mirrored.append(12)
    assert shown(mirrored) == list(range(18))
    snapshots = mirrored.shown().metadata.snapshots
    assert [s.summary and s.summary["added-records"] for s in snapshots] == ["6", "6", "6"]


def test_a_silent_catalog_is_not_waited_for_without_limit(
    mirrored: InCatalog, rest_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "LIMIT", (5.0, 0.3))
    rest_proxy.add("stall", times=EVER)
    mirrored.append(0)
    with pytest.raises(MirrorCatalogError, match="ReadTimeout"):
        mirrored.publish()


def strangers(request: Request) -> bool:
    return f"Authorization: Bearer {TOKEN}".lower().encode() not in request.raw.lower()


def test_a_token_opens_the_catalog_and_is_written_nowhere(
    mirrored: InCatalog,
    rest_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="")
    rest_proxy.add("answer", strangers, times=EVER, answer=said(401))
    mirrored.append(0)
    for given, opens in ((f"x-{TOKEN}", False), (TOKEN, True)):
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", given)
        monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
        if opens:
            mirrored.publish()
        else:
            with pytest.raises(MirrorCatalogError, match="UnauthorizedError") as caught:
                mirrored.publish()
            assert TOKEN not in f"{caught.value} {caught.value.next_step}"
    assert len(by_pyiceberg(mirrored.shown(), {})) == 6
    assert caplog.records
    assert TOKEN not in caplog.text
    written = [p for p in mirrored.scratch.rglob("*") if p.is_file()]
    assert not [p for p in written if TOKEN.encode() in p.read_bytes()]
