"""Verify: a healthy table has no finding after anything, and every damage has its own."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import FindingsError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log import codec, txn_file
from firnline.log.records import LogContent, Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions, VerifyOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.verify.run import VerifyReport, refuse_findings, run_verify
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted
from firnline.parquet.part import PartMetadata
from firnline.state.snapshot import read_snapshot
from tests.support import histories
from tests.support.histories import RUN, append, filled, merge, state
from tests.support.world import World

DEEP = VerifyOptions(deep=True)


def verify(world: World, *, deep: bool = True) -> VerifyReport:
    return run_verify(Work(world.table), VerifyOptions(deep=deep))


def kinds(world: World, *, deep: bool = True) -> dict[str, int]:
    report = verify(world, deep=deep)
    if report.healthy:
        refuse_findings(report)
    else:
        with pytest.raises(FindingsError, match="table t has"):
            refuse_findings(report)
    assert all(f.sentence and f.next_step and f.object for f in report.findings)
    return report.kinds


def some_part(world: World) -> str:
    return sorted(state(world).live)[0]


def rewrite(world: World, key: str, data: bytes) -> None:
    world.store.objects[key] = (data, world.clock.now)


def logs(world: World) -> list[str]:
    return sorted(k for k in world.store.objects if k.startswith(world.table.paths.log_dir))


def put_log(world: World, t: int, **content: object) -> str:
    key = world.table.paths.append_log(t, f"host-{world.ids.uuid7(t)}")
    made = LogContent(**{"t": t, "schema": {"id": "BIGINT"}, **content})  # type: ignore[arg-type] # by name
    rewrite(world, key, codec.encode(made))
    return key


# --- nothing is found -----------------------------------------------------------------------------


@pytest.mark.long
def test_a_healthy_table_has_no_finding_after_any_operation(tmp_path: Path) -> None:
    world = filled()
    assert kinds(world) == {}
    merge(world, tmp_path)
    assert kinds(world) == {}
    append(world, 24)
    histories.drop(world, "day=0")
    assert kinds(world) == {}
    histories.clean_up(world)
    assert kinds(world) == {}
    for first in range(30, 60, 6):
        append(world, first)
    merge(world, tmp_path)
    assert kinds(world) == {}


def test_an_empty_place_is_no_table() -> None:
    with pytest.raises(UsageError, match="there is no table at memory://bucket/t"):
        verify(histories.table_world())


def test_the_report_counts_what_was_looked_at(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    report = verify(world)
    checked = report.checked
    assert (checked.log_files, checked.transactions) == (5, 1)
    assert (checked.live_parts, checked.dead_parts, checked.v1_parts) == (2, 8, 2)
    assert (checked.rows, checked.footer_rows, checked.footers) == (24, 24, 2)
    assert (checked.objects, checked.orphans, checked.young_objects) == (10, 0, 0)
    assert report.to_json()["healthy"] is True
    assert report.requests["put"] == report.requests["delete"] == 0


def test_without_deep_no_footer_is_read() -> None:
    world = filled()
    report = verify(world, deep=False)
    assert report.checked.footers == 0
    assert report.requests["get"] == 5  # four log files and the birth record
    assert report.requests["list"] == 6


# --- the log --------------------------------------------------------------------------------------


def test_a_cut_log_file_is_named_with_its_line() -> None:
    world = filled()
    key = logs(world)[1]
    rewrite(world, key, world.store.objects[key][0][:-30])
    report = verify(world)
    (finding,) = [f for f in report.findings if f.kind == "log-unreadable"]
    assert (finding.object, finding.severity) == (key, "error")
    assert "line" in finding.sentence
    assert report.checked.v1_parts is None
    assert report.checked.live_parts == 6, "the rest is checked all the same"


def test_a_cut_log_file_that_another_carries_is_a_warning(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    key = logs(world)[0]
    rewrite(world, key, world.store.objects[key][0][:-30])
    report = verify(world)
    assert report.kinds == {"log-unreadable": 1}
    assert report.severities == {"warning": 1}


@pytest.mark.parametrize("name", ["notes.txt", "x.jsonl", "deep/er.jsonl"])
def test_what_is_no_log_file_is_named(name: str) -> None:
    world = filled()
    rewrite(world, world.table.paths.log_dir + name, b"?")
    assert kinds(world) == {"log-strange-object": 1}


def test_a_log_file_from_the_future_is_named() -> None:
    world = filled()
    put_log(world, world.clock.now + 3_600_000)
    assert kinds(world) == {"log-from-the-future": 1}


@pytest.mark.long
def test_a_log_file_under_another_name_is_named(tmp_path: Path) -> None:
    world = filled()
    key = logs(world)[0]
    name = world.table.paths.parse_log(key)
    world.store.objects[key.replace(str(name.t), str(name.t - 5))] = world.store.objects.pop(key)
    assert kinds(world) == {"log-time-mismatch": 1}
    merge(world, tmp_path)
    key = logs(world)[-1]
    other = world.ids.uuid7(1)
    txn = world.table.paths.parse_log(key).txn
    world.store.objects[key.replace(txn, other)] = world.store.objects[key]
    assert kinds(world)["log-misnamed"] == 1


def test_log_files_that_wait_for_clean_up_are_one_note(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    world.clock.advance(world.settings.cleanup.grace + 1)
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"log-clean-up-due": 1}, True)
    assert "4 folded log files" in report.findings[0].sentence


@pytest.mark.long
def test_a_schema_conflict_is_found_and_the_rest_is_checked() -> None:
    world = filled()
    world.clock.advance(1)
    put_log(world, world.clock.now, schema={"id": "VARCHAR"})
    gone = some_live(world)
    del world.store.objects[gone]
    assert kinds(world, deep=False) == {"schema-conflict": 1, "part-missing": 1}
    found = run_verify(Work(world.table), VerifyOptions()).findings[-1]
    assert "firnline schema fix" in found.next_step


def test_columns_in_dispute_are_no_fault_of_every_part() -> None:
    world = filled()
    put_log(world, world.clock.now, schema={"id": "VARCHAR"})
    assert kinds(world) == {"schema-conflict": 1}


def some_live(world: World) -> str:
    return min(k for k in world.store.objects if k.startswith(world.table.paths.data_dir))


@pytest.mark.long
def test_two_log_files_that_disagree_on_a_part_are_found() -> None:
    world = filled()
    marker = state(world).live[some_part(world)]
    world.clock.advance(1)
    wrong = msgspec.structs.replace(marker, b=marker.b + 1)
    put_log(world, world.clock.now, markers=[wrong])
    assert kinds(world) == {"log-conflict": 1}


# --- transactions ---------------------------------------------------------------------------------


def merged_twice(tmp_path: Path) -> World:
    world = filled()
    merge(world, tmp_path)
    for first in range(24, 48, 6):
        append(world, first)
    merge(world, tmp_path)
    return world


@pytest.mark.long
def test_a_cut_transaction_is_named(tmp_path: Path) -> None:
    world = merged_twice(tmp_path)
    key = world.table.paths.txn(1)
    rewrite(world, key, world.store.objects[key][0][:-9])
    assert kinds(world) == {"txn-unreadable": 1}


@pytest.mark.long
def test_a_gap_and_a_lost_end_are_named(tmp_path: Path) -> None:
    world = merged_twice(tmp_path)
    for first in range(48, 72, 6):
        append(world, first)
    merge(world, tmp_path)
    kept = dict(world.store.objects)
    del world.store.objects[world.table.paths.txn(2)]
    assert kinds(world) == {"txn-gap": 1}
    world.store.objects = dict(kept)
    del world.store.objects[world.table.paths.txn(3)]
    assert kinds(world) == {"txn-gap": 1}
    world.store.objects = dict(kept)
    del world.store.objects[world.table.paths.txn(1)]
    assert kinds(world) == {"txn-gap": 1}, "retention, which removes here, leaves a hundred"


@pytest.mark.long
def test_a_strange_object_and_a_transaction_from_the_future_are_named(tmp_path: Path) -> None:
    world = merged_twice(tmp_path)
    rewrite(world, world.table.paths.txn_dir + "notes", b"x")
    assert kinds(world) == {"txn-strange-object": 1}
    world.clock.now -= 3_600_000
    assert kinds(world)["txn-from-the-future"] == 2


def test_an_unpublished_transaction_is_a_note(tmp_path: Path) -> None:
    world = filled()
    world.clock.advance(1)
    dead = histories.dies_at(
        world, "put t/_log/", "before", lambda store: merge(world, tmp_path, store)
    )
    assert dead
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"txn-unpublished": 1}, True)
    seen = read_snapshot(world.store, world.table.paths)
    assert len(seen.live) == report.checked.live_parts == 2
    assert report.checked.dead_parts == len(seen.parts) - 2


@pytest.mark.long
def test_a_part_of_an_unpublished_transaction_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Readers see the transaction, and miss the part."""
    world = filled()
    world.clock.advance(1)
    histories.dies_at(world, "put t/_log/", "before", lambda store: merge(world, tmp_path, store))
    lost = min(read_snapshot(world.store, world.table.paths).live)
    del world.store.objects[lost]
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"txn-unpublished": 1, "part-missing": 1}, False)


@pytest.mark.long
def test_a_lost_log_file_is_seen_by_what_the_transactions_name(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24, 1)  # little enough that its fold leaves the merge's log file alone
    commit(world.table, take_base(world.table), Change("drop", (), (), Counts()), RUN)
    first, second = [k for k in logs(world) if "_m_" in k]
    assert kinds(world) == {}
    del world.store.objects[first]  # the second does not carry it
    # The appends' own log files are still there and have the merged parts' inputs alive.
    assert kinds(world) == {"log-lost": 1, "log-misses-part": 2, "log-misses-tombstone": 8}
    for key in logs(world):
        if key != second:
            del world.store.objects[key]
    assert kinds(world) == {"log-lost": 1, "log-misses-part": 2}
    assert verify(world).findings[0].next_step.startswith("run `firnline rebuild`")


# --- parts ----------------------------------------------------------------------------------------


def test_a_missing_part_and_a_part_of_another_size_are_named() -> None:
    world = filled()
    one, two = sorted(state(world).live)[:2]
    del world.store.objects[one]
    assert kinds(world) == {"part-missing": 1}
    rewrite(world, two, world.store.objects[two][0] + b"x")
    report = verify(world, deep=False)
    assert report.kinds == {"part-missing": 1, "part-size": 1}
    assert {f.object for f in report.findings} == {one, two}


def test_orphans_are_one_note_once_they_are_old() -> None:
    world = filled()
    paths = world.table.paths
    for _ in range(3):
        rewrite(world, paths.data_part("day=0", world.ids.uuid7(world.clock.now)), b"12345")
    report = verify(world)
    assert (report.kinds, report.checked.young_objects) == ({}, 3)
    world.clock.advance(world.settings.orphan_grace + 1)
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"orphans": 1}, True)
    assert (report.checked.orphans, report.checked.orphan_bytes) == (3, 15)


def test_a_dead_part_that_should_be_gone_and_one_that_is_gone_early(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    dead = sorted(p for p, m in state(world).parts.items() if m.tmb is not None)
    taken = world.store.objects[dead[0]]
    del world.store.objects[dead[0]]
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"part-gone-early": 1}, True)
    histories.clean_up(world)
    assert kinds(world) == {}
    world.store.objects[dead[0]] = taken
    world.clock.advance(1)
    known = dead[0] in state(world).parts
    assert kinds(world) == ({"part-not-purged": 1} if known else {})


@pytest.mark.long
def test_a_dead_part_at_or_below_the_horizon_whose_object_exists_is_a_warning() -> None:
    world = filled()
    (path, *_), t = sorted(state(world).live), world.clock.now + 1
    world.clock.advance(1)
    change = Change("drop", (path,), (), Counts(), purge=lambda _: t + 100)
    commit(world.table, take_base(world.table), change, RUN)
    report = verify(world)
    assert report.kinds == {"part-not-purged": 1}
    assert report.severities == {"warning": 1}


# --- version 1 ------------------------------------------------------------------------------------


def test_pending_deletes_are_a_note_on_what_v1_readers_see() -> None:
    world = filled()
    histories.delete_lazily(world, 3)
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"v1-sees-deleted-rows": 1}, True)
    # The others hold no such row, as their statistics say.
    assert "2 parts" in report.findings[0].sentence


@pytest.mark.long
def test_a_stale_alive_marker_in_a_later_log_file_misleads_v1_readers(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    dead = next(m for m in state(world).parts.values() if m.tmb is not None)
    world.clock.advance(5)
    put_log(world, world.clock.now, markers=[msgspec.structs.replace(dead, tmb=None)])
    report = verify(world)
    assert report.kinds == {"v1-differs": 1}
    assert report.findings[0].object == dead.p


@pytest.mark.long
def test_a_stale_tombstone_of_a_wrong_clock_misleads_v1_readers() -> None:
    world = filled()
    marker = state(world).live[some_part(world)]
    # Ours: dead beats alive. v1: the alive marker's file comes later.
    early = marker.t - 1000
    put_log(world, early, markers=[msgspec.structs.replace(marker, tmb=early)])
    assert kinds(world) == {"v1-differs": 1}


def test_what_lies_beside_checkpoints_is_a_note() -> None:
    world = filled()
    rewrite(world, world.table.paths.checkpoint_dir + "1.parquet", b"")
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"checkpoints": 1}, True)


# --- footers --------------------------------------------------------------------------------------


def replaced(world: World, key: str, rows: pa.Table, part: PartMetadata | None = None) -> None:
    """Another Parquet file under a live part's name, of the size that the log states."""
    sink = io.BytesIO()
    pairs = {} if part is None else part.to_pairs()
    order = state(world).live[key].sorted_by()
    sorting = [pq.SortingColumn(rows.column_names.index(k.column), k.descending) for k in order]
    pq.write_table(rows.replace_schema_metadata(pairs), sink, sorting_columns=sorting or None)
    rewrite(world, key, sink.getvalue())
    marker = state(world).live[key]
    for log in logs(world):
        data = world.store.objects[log][0]
        content = codec.decode(log, data, world.table.paths)
        markers = [
            msgspec.structs.replace(m, b=len(sink.getvalue())) if m.p == marker.p else m
            for m in content.markers
        ]
        rewrite(world, log, codec.encode(msgspec.structs.replace(content, markers=markers)))


GOOD: dict[str, list[Any]] = {"id": [1, 2, 3], "day": [0, 0, 0], "name": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (GOOD | {"id": ["1", "2", "3"]}, "footer-schema"),
        (GOOD | {"more": [1, 2, 3]}, "footer-schema"),
        ({name: values[:2] for name, values in GOOD.items()}, "footer-rows"),
    ],
)
def test_a_footer_that_does_not_fit_is_named(rows: dict[str, list[Any]], kind: str) -> None:
    world = filled()
    key = some_part(world)
    replaced(world, key, pa.table(rows))
    assert kinds(world) == {kind: 1}
    assert kinds(world, deep=False) == {}


@pytest.mark.long
def test_parts_that_differ_in_the_same_columns_are_one_finding_with_one_call() -> None:
    world = filled()
    first, *others = sorted(state(world).live)[:3]
    for key in (first, *others):
        replaced(world, key, pa.table(GOOD | {"id": ["1", "2", "3"], "more": [1, 2, 3]}))
    report = verify(world)
    assert report.kinds["footer-schema"] == 1
    found = next(f for f in report.findings if f.kind == "footer-schema")
    assert found.object == first
    assert found.sentence == (
        "has column 'id' as VARCHAR where the table has BIGINT; a column 'more' (BIGINT) that the "
        "table does not have, and so have 2 other parts"
    )
    assert found.next_step == (
        "`firnline schema fix t --column id --type BIGINT --column more --type BIGINT --all-parts` "
        "repairs it; look with --dry-run first"
    )


def test_parts_that_differ_in_other_columns_have_the_same_call() -> None:
    world = filled()
    first, second = sorted(state(world).live)[:2]
    replaced(world, first, pa.table(GOOD | {"id": ["1", "2", "3"]}))
    replaced(world, second, pa.table(GOOD | {"more": [1, 2, 3]}))
    found = [f for f in verify(world).findings if f.kind == "footer-schema"]
    assert len(found) == 2
    (step,) = {f.next_step for f in found}
    assert "--column id --type BIGINT --column more --type BIGINT --all-parts` repairs it" in step


@pytest.mark.long
def test_a_footer_without_some_of_the_columns_fits() -> None:
    world = filled()
    replaced(world, some_part(world), pa.table({"id": [1, 2, 3]}))
    assert kinds(world) == {}


def stating(world: World, key: str, order: str) -> None:
    """Let the log say something else of what a part is sorted by."""
    for log in logs(world):
        content = codec.decode(log, world.store.objects[log][0], world.table.paths)
        markers = [
            msgspec.structs.replace(m, k=msgspec.Raw(order.encode())) if m.p == key else m
            for m in content.markers
        ]
        rewrite(world, log, codec.encode(msgspec.structs.replace(content, markers=markers)))


@pytest.mark.long
def test_a_marker_that_states_another_order_than_the_footer_is_named_with_what_mends_it(
    tmp_path: Path,
) -> None:
    world = filled()
    key = some_part(world)
    stating(world, key, '["name desc","id"]')
    report = verify(world)
    assert (report.kinds, report.healthy) == ({"footer-order": 1}, False)
    (found,) = report.findings
    assert (found.object, found.severity) == (key, "warning")
    assert found.sentence == (
        "is sorted by id as its footer states, and by name desc, id by the log"
    )
    assert "`firnline rewrite t --partitions day=0 --sql 'select * from _rows'`" in found.next_step
    assert kinds(world, deep=False) == {}
    options = RewriteOptions(sql="select * from _rows", partitions=("day=0",))
    engine = LocalEngine(lambda: world.table.store, tmp_path, world.ids, SystemClock())
    run_rewrite(Work(world.table, RunIdentity(run_id="r"), lambda: engine), options)
    assert kinds(world) == {}


@pytest.mark.long
@pytest.mark.parametrize("order", ['["id"]', "[]", '"id"', "7", '[{"by":"id"}]'])
def test_a_marker_that_states_no_order_or_none_that_reads_is_no_finding(order: str) -> None:
    world = filled()
    stating(world, some_part(world), order)
    assert kinds(world) == {}


def test_a_part_that_does_not_read_is_named() -> None:
    world = filled()
    key = some_part(world)
    size = len(world.store.objects[key][0])
    rewrite(world, key, b"\0" * size)
    assert kinds(world) == {"footer-unreadable": 1}


@pytest.mark.long
def test_a_part_beside_the_one_it_was_made_into_is_doubled(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    merged = next(iter(state(world).live))
    name = world.table.paths.parse_part(merged)
    twice = world.table.paths.data_part(name.partition, world.ids.uuid7(world.clock.now))
    rewrite(world, twice, world.store.objects[merged][0])
    world.clock.advance(1)
    put_log(world, world.clock.now, markers=[Marker(p=twice, b=1, t=world.clock.now)])
    replaced(
        world,
        twice,
        pa.table(GOOD),
        PartMetadata(table="t", partition=name.partition, writer="merge", replaces=(name.name,)),
    )
    found = kinds(world)
    assert found == {"part-twice": 1}


def test_a_part_in_another_partition_s_folder_is_named() -> None:
    world = filled()
    part = PartMetadata(table="t", partition="day=7", writer="merge")
    replaced(world, some_part(world), pa.table(GOOD), part)
    assert kinds(world) == {"part-moved": 1}


def test_of_many_findings_of_a_kind_a_hundred_are_listed_and_all_counted() -> None:
    world = histories.table_world()
    t = world.clock.now
    ids = (world.ids.uuid7(t) for _ in range(250))
    markers = [Marker(p=world.table.paths.data_part("day=0", i), b=1, t=t) for i in ids]
    put_log(world, t, markers=markers)
    report = verify(world, deep=False)
    assert (len(report.findings), report.kinds) == (100, {"part-missing": 250})
    assert report.severities == {"error": 250}


@pytest.mark.long
def test_footers_may_be_read_elsewhere() -> None:
    world = filled()
    asked: list[int] = []

    def elsewhere(tasks: Sequence[FooterTask], _: FooterWanted) -> Iterator[FooterFacts]:
        asked.append(len(tasks))
        return iter(())

    report = run_verify(Work(world.table, footers=elsewhere), DEEP)
    assert (asked, report.checked.footers) == ([8], 0)


@pytest.mark.long
def test_a_transaction_s_copy_that_differs_from_what_it_should_publish_does_not_read(
    tmp_path: Path,
) -> None:
    world = merged_twice(tmp_path)
    key = world.table.paths.txn(2)
    header, log_file = txn_file.decode(key, world.store.objects[key][0], world.table.paths)
    rewrite(world, key, txn_file.encode(header, log_file[:-5]))
    assert kinds(world) == {"txn-unreadable": 1}
