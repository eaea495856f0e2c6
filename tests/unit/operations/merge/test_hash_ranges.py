"""Parts that a condition on a bucket or a hash cluster excludes, over the life of a table."""

from __future__ import annotations

import random
import signal
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import DAMAGED_PART
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import NO_STATS, Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.analyze.run import AnalyzeFailedError, AnalyzeReport, run_analyze
from firnline.operations.analyze.run import preview as preview_analyze
from firnline.operations.delete.run import preview as preview_delete
from firnline.operations.delete.run import run_delete
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import preview as preview_erase
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    AnalyzeOptions,
    DeleteOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    ReplaceOptions,
    RewriteOptions,
    SchemaFixOptions,
)
from firnline.operations.properties.run import run_apply
from firnline.operations.replace.run import preview as preview_replace
from firnline.operations.replace.run import run_replace
from firnline.operations.rewrite.run import preview as preview_rewrite
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.parquet import footers
from firnline.predicate.sql import parse_sql
from firnline.read import batches
from firnline.read import files as read_files
from firnline.read.plan import ReadOptions, plan_read
from firnline.read.task import ReadPart
from firnline.settings.load import TableSettings
from tests.support.log_tables import snapshot
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
BUCKETS = {"partition_by": ["bucket(8, id)"], "merge": {"min_inputs": 2}}
PARTS = 9
"""Of an append of ``bucketed``: one for each bucket, and one for the null."""


def append(world: World, **columns: Any) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table(columns))


def bucketed(appends: int = 1, **more: Any) -> World:
    """Appends of 640 ids each, and a null."""
    world = make_world(**{**BUCKETS, **more})
    for number in range(appends):
        ids = pa.array([*range(number * 640, number * 640 + 640), None], pa.int32())
        append(world, id=ids, x=[number] * 641)
    return world


def engine(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.table.store, scratch, world.ids, SystemClock())


def merge(world: World, scratch: Path) -> None:
    report = run_merge(Work(world.table, RUN, lambda: engine(world, scratch)), MergeOptions())
    assert not report.failures


def live(world: World) -> list[Marker]:
    return sorted(snapshot(world).live.values(), key=lambda m: m.p)


def planned(world: World, where: str) -> int:
    """Number of parts that a read with the condition fetches."""
    state = snapshot(world)
    tree = parse_sql(where, state.schema)
    return len(plan_read(state, world.settings, ReadOptions(where=tree)).task.parts)


def found(world: World, where: str) -> list[Any]:
    """Ids that a read with the condition returns."""
    rows = firnline.scan(world.table, where=where).arrow_reader().read_all().to_pylist()
    return sorted(row["id"] for row in rows)


def without_ranges(world: World) -> None:
    """Make the log what an older version would have written."""
    for key in [key for key in world.store.objects if key.startswith("t/_log/")]:
        data, modified = world.store.objects[key]
        content = codec.decode(key, data, world.table.paths)
        markers = [msgspec.structs.replace(m, h=NO_STATS) for m in content.markers]
        bare = codec.encode(msgspec.structs.replace(content, markers=markers))
        world.store.objects[key] = (bare, modified)


@pytest.mark.long
def test_a_value_is_read_from_the_part_of_its_bucket_alone() -> None:
    world = bucketed(partition_by=["bucket(64, id)"])
    assert len(live(world)) == 65
    for value in range(0, 640, 40):
        assert planned(world, f"id = {value}") == 1
        assert found(world, f"id = {value}") == [value]
    assert planned(world, "id in (1, 2, 3)") == 3
    assert planned(world, "(id = 1 or id = 2) and x = 0") == 2
    assert planned(world, "id = 1 or x = 0") == 65
    assert planned(world, "id is null") == 1  # by statistics


@pytest.mark.long
def test_a_merge_keeps_the_bucket_of_its_inputs(tmp_path: Path) -> None:
    world = bucketed(2)
    assert planned(world, "id = 7") == 1
    merge(world, tmp_path)
    assert len(live(world)) == PARTS
    for value in (0, 639, 640, 1279):
        assert planned(world, f"id = {value}") == 1
        assert found(world, f"id = {value}") == [value]


@pytest.mark.long
def test_a_part_that_states_no_bucket_is_read_until_a_merge_has_counted(tmp_path: Path) -> None:
    world = bucketed(2)
    without_ranges(world)
    assert planned(world, "id = 320") == 8
    merge(world, tmp_path)
    assert planned(world, "id = 320") == 1
    assert found(world, "id = 320") == [320]


@pytest.mark.long
def test_a_row_that_another_client_put_into_a_wrong_bucket_is_found(tmp_path: Path) -> None:
    world = bucketed(1)
    wrong = next(p for p in snapshot(world).partitions if found_in(world, p, 7))
    rows = pa.table({"id": pa.array([7], pa.int32()), "x": [1]})
    V1Client(world).append_rows(wrong, rows, {"id": "INTEGER", "x": "BIGINT"})
    assert found(world, "id = 7") == [7, 7]
    assert planned(world, "id = 7") == 2
    merge(world, tmp_path)  # the hash of the rows is counted, not the name of the directory
    assert found(world, "id = 7") == [7, 7]
    assert planned(world, "id = 7") == 2


def found_in(world: World, partition: str, other: int) -> bool:
    """Return True for the bucket of another value."""
    (marker,) = snapshot(world).partitions[partition]
    low, high, _ = marker.stats()["id"]
    return low is not None and not low <= other <= high  # type: ignore[operator]


@pytest.mark.long
def test_a_query_of_merges_that_changes_the_column_moves_no_row_out_of_sight(
    tmp_path: Path,
) -> None:
    world = bucketed(2, merge={"min_inputs": 2, "sql": "SELECT id + 1 AS id, x FROM source_files"})
    merge(world, tmp_path)
    for value in (1, 7, 640, 1280):
        assert found(world, f"id = {value}") == [value]


@pytest.mark.long
def test_parts_of_a_former_number_of_buckets_are_told_by_their_own(tmp_path: Path) -> None:
    world = bucketed(1, partition_by=["bucket(4, id)"])
    changed = {**BUCKETS, "name": "t", "root": "memory://bucket/t"}
    settings = TableSettings.model_validate(changed)
    world.table = replace(world.table, settings=settings)
    world.settings = settings
    run_apply(world.table, RUN, dry_run=False)
    append(world, id=pa.array(range(640), pa.int32()), x=[1] * 640)
    assert len(snapshot(world).partitions) == PARTS  # directories 0 to 3 hold parts of both
    for value in range(0, 640, 40):
        assert planned(world, f"id = {value}") == 2
        assert found(world, f"id = {value}") == [value, value]
    merge(world, tmp_path)
    for value in range(0, 640, 40):
        assert found(world, f"id = {value}") == [value, value]


def test_a_delete_an_erase_and_a_rewrite_look_into_one_bucket(tmp_path: Path) -> None:
    world = bucketed()
    plan = preview_delete(world.table, DeleteOptions(where="id = 320"))
    assert (plan.parts_in, plan.excluded) == (1, PARTS - 1)
    erase = preview_erase(world.table, EraseOptions(columns=("id",), keys=((320,), (321,))))
    buckets = planned(world, "id in (320, 321)")
    assert (erase.parts_in, erase.excluded) == (buckets, PARTS - buckets)
    keep = RewriteOptions(where="id is null or not (id = 320)", partitions=("*",))
    assert len(preview_rewrite(world.table, keep).to_json()["partitions"]) == 1
    report = run_delete(
        Work(world.table, RUN, lambda: engine(world, tmp_path)), DeleteOptions(where="id = 320")
    )
    assert (report.parts_read, report.parts_rewritten, report.parts_excluded) == (1, 1, PARTS - 1)
    assert found(world, "id = 320") == []
    assert planned(world, "id = 320") == 1  # what was rewritten states its bucket again


@pytest.mark.long
def test_an_erase_reads_the_buckets_of_its_keys_and_certifies_the_others(tmp_path: Path) -> None:
    world = bucketed()
    asked = EraseOptions(columns=("id",), keys=((320,),))
    report = run_erase(Work(world.table, RUN, lambda: engine(world, tmp_path)), asked)
    assert (report.parts_read, report.parts_excluded) == (1, PARTS - 1)
    assert found(world, "id = 320") == []
    assert len(found(world, "id in (319, 321)")) == 2
    (certificate,) = list_certificates(world.table)
    done = complete_certificate(world.table, certificate.id, RUN)
    assert {left.kind: left.count for left in done.remaining}.get("unread part", 0) == 0
    assert "older part" not in {left.kind for left in done.remaining}
    without_ranges(world)
    done = complete_certificate(world.table, certificate.id, RUN)
    # Nothing excludes the keys any more; what was clean when the erase was planned still is.
    assert "late part" not in {left.kind for left in done.remaining}


@pytest.mark.long
def test_a_lazy_delete_is_pending_in_one_bucket() -> None:
    world = bucketed()
    where = DeleteOptions(where="id = 7", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: pytest.fail("no part is read")), where)
    state = snapshot(world)
    pending = [
        len(state.pending_deletes(marker, name))
        for name, markers in state.partitions.items()
        for marker in markers
    ]
    assert Counter(pending) == {1: 1, 0: PARTS - 1}


def analyze(world: World, **options: Any) -> AnalyzeReport:
    world.clock.advance(10)
    return run_analyze(Work(world.table, RUN), AnalyzeOptions(hashes=True, **options))


@pytest.mark.long
def test_an_analyze_counts_the_buckets_of_parts_that_state_none_and_writes_no_part() -> None:
    world = bucketed(2)
    stated = {m.p: m.hashes() for m in live(world)}
    without_ranges(world)
    plain = preview_analyze(world.table, AnalyzeOptions())
    assert (plain.nothing_to_do, plain.not_hashed) == (True, 2 * PARTS)
    plan = preview_analyze(world.table, AnalyzeOptions(hashes=True)).to_json()
    assert plan["lacking_hashes"] == {"bucket(8, id)": 2 * PARTS}
    assert (plan["parts"], plan["requests"]) == (2 * PARTS, 2 * PARTS)
    assert analyze(world, dry_run=True).transactions == ()
    assert planned(world, "id = 320") == 8
    report = analyze(world)
    assert (report.parts, report.parts_without) == (2 * PARTS, 0)
    assert {m.p: m.hashes() for m in live(world)} == stated
    assert planned(world, "id = 320") == 1
    assert found(world, "id = 320") == [320]
    again = analyze(world)
    assert (again.parts, again.plan["parts"], again.transactions) == (0, 0, ())


@pytest.mark.parametrize("whole", [read_files.WHOLE, 100])
def test_an_analyze_outlives_a_footer_over_which_arrow_would_end_it_and_names_the_part(
    monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(read_files, "WHOLE", whole)
    world = bucketed(1)
    without_ranges(world)
    key = sorted(m.p for m in live(world))[0]
    ask = footers._PROCESS.ask

    def parse(message: bytes) -> tuple[bytes | None, int]:
        task = msgspec.msgpack.decode(message, type=footers.FooterRequest).task
        return (None, -signal.SIGABRT) if task.key == key else ask(message)

    monkeypatch.setattr(footers._PROCESS, "ask", parse)
    opened: list[str] = []

    def open_part(part: ReadPart, *more: Any) -> AbstractContextManager[batches.Stored]:
        opened.append(part.key)
        return batches.opened(part, *more)

    monkeypatch.setattr("firnline.operations.analyze.hashes.opened", open_part)
    with pytest.raises(AnalyzeFailedError) as failed:
        analyze(world)
    (failure,) = failed.value.report.failures
    assert failure.key == key
    assert failure.message == (
        f"part {key} is not readable: the process that parsed its footer ended with signal "
        f"SIGABRT; see with `firnline verify --deep --rows` which others are not; {DAMAGED_PART}"
    )
    assert failed.value.report.parts == PARTS - 1, "the others are done"
    assert len(opened) == PARTS - 1
    assert key not in opened, "this process does not parse it"


def test_an_analyze_states_the_bucket_of_every_row_and_not_that_of_the_directory() -> None:
    world = bucketed(1)
    wrong = next(p for p in snapshot(world).partitions if found_in(world, p, 7))
    rows = pa.table({"id": pa.array([7], pa.int32()), "x": [1]})
    V1Client(world).append_rows(wrong, rows, {"id": "INTEGER", "x": "BIGINT"})
    assert analyze(world).parts == 1
    assert found(world, "id = 7") == [7, 7]
    assert planned(world, "id = 7") == 2


def test_an_analyze_hashes_rows_that_a_delete_hides_too() -> None:
    world = bucketed(1)
    where = DeleteOptions(where="id = 7", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: pytest.fail("no part is read")), where)
    stated = {m.p: m.hashes() for m in live(world)}
    without_ranges(world)
    analyze(world)
    assert {m.p: m.hashes() for m in live(world)} == stated


def test_an_analyze_of_a_renamed_column_states_the_name_in_the_part() -> None:
    world = bucketed(1)
    without_ranges(world)
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(rename={"x": "y"})))
    assert analyze(world).parts == PARTS
    assert planned(world, "id = 7") == 1
    assert found(world, "id = 7") == [7]


def test_an_analyze_of_a_widened_column_keeps_what_its_bytes_were() -> None:
    world = make_world(cluster_by={"columns": ["d"], "method": "hash"})
    append(world, id=[1], d=pa.array([5], pa.date32()))
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(widen={"d": "TIMESTAMP"})))
    assert analyze(world).parts == 1
    ((_, forms, *_),) = ((each.columns, each.forms) for m in live(world) for each in m.hashes())
    assert forms == ("date",)  # excludes nothing for a timestamp
    assert found(world, "d = '1970-01-06'") == [1]
    assert analyze(world).plan["parts"] == 0, "the part would say the same again"


@pytest.mark.long
def test_an_analyze_states_the_hashes_of_a_cluster_of_several_columns() -> None:
    world = make_world(cluster_by={"columns": ["id", "d"], "method": "hash"})
    # Bounds exclude none of them: the first and the last row are the same everywhere.
    for number in range(20):
        append(world, id=["a", f"u-{number}", "z", None], d=[0, number, 99, 7])
    append(world, id=["u-9"])  # lacks a column: none of its rows has a hash
    where = "id = 'u-2' and d = 2"
    before = planned(world, where)
    assert analyze(world).parts == 21
    assert planned(world, where) < before
    assert found(world, where) == ["u-2"]
    ranges = [each for m in live(world) for each in m.hashes()]
    assert {each.about for each in ranges} == {(("id", "d"), ("text", "long"), 0)}
    assert [each.bounds for each in ranges].count(None) == 1
    assert analyze(world).plan["parts"] == 0


def test_an_analyze_tells_a_part_that_it_cannot_read_after_the_others() -> None:
    world = bucketed(1)
    without_ranges(world)
    gone = live(world)[3].p
    world.store.objects.pop(gone)
    with pytest.raises(AnalyzeFailedError, match=f"(?s){gone}") as caught:
        analyze(world)
    assert (caught.value.report.failed, caught.value.report.parts) == (1, PARTS - 1)


def test_a_replace_of_equal_rows_reads_the_part_of_their_bucket_alone(tmp_path: Path) -> None:
    world = bucketed()
    options = ReplaceOptions(column="x", start=0, end=100, equal={"id": 320}, mode="eager")
    plan = preview_replace(world.table, msgspec.structs.replace(options, nothing=True))
    assert (sum(len(group.parts) for group in plan.groups), plan.dropped) == (1, ())
    rows = pa.table({"id": pa.array([320], pa.int32()), "x": [7]})
    report = run_replace(
        Work(world.table, RUN, lambda: engine(world, tmp_path)), options, data=rows
    )
    assert (report.parts_read, report.parts_excluded) == (1, PARTS - 1)
    assert found(world, "id = 320") == [320]
    assert len(found(world, "id >= 0")) == 640


@pytest.mark.long
def test_a_widened_whole_number_keeps_its_bucket(tmp_path: Path) -> None:
    world = bucketed(2)
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(widen={"id": "BIGINT"})))
    assert planned(world, "id = 320") == 1
    merge(world, tmp_path)
    assert planned(world, "id = 320") == 1
    assert found(world, "id = 320") == [320]


@pytest.mark.long
def test_a_column_of_a_hash_cluster_that_gets_other_hashes_excludes_nothing_until_a_merge(
    tmp_path: Path,
) -> None:
    world = make_world(
        cluster_by={"columns": ["d"], "method": "hash"},
        merge={"target_size": "1MiB", "min_inputs": 2},
    )
    for number in range(8):
        days = pa.array([(n * 7919) % 300 for n in range(300)], pa.date32())
        append(world, id=[number] * 300, d=days, noise=noise(number))
    merge(world, tmp_path)
    assert planned(world, "d = '1970-05-05'") == 1
    widened = Evolution(widen={"d": "TIMESTAMP"})
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=widened))
    assert planned(world, "d = '1970-05-05'") == len(live(world)) > 1
    assert len(found(world, "d = '1970-05-05'")) == 8


def test_a_renamed_column_takes_its_hash_ranges_with_it() -> None:
    world = bucketed()
    state = snapshot(world)
    changed = Evolution(rename={"x": "y"})
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=changed))
    assert planned(world, "id = 7") == 1
    after = snapshot(world)
    assert {m.p: state.hashes_of(m) for m in state.live.values()} == {
        m.p: after.hashes_of(m) for m in after.live.values()
    }


@pytest.mark.long
def test_a_change_at_once_counts_the_buckets_of_its_new_parts(tmp_path: Path) -> None:
    world = bucketed()
    asked = SchemaFixOptions(evolution=Evolution(widen={"id": "BIGINT"}))
    run_schema_fix(Work(world.table, RUN, lambda: engine(world, tmp_path)), asked)
    assert snapshot(world).schema["id"] == "BIGINT"
    assert planned(world, "id = 7") == 1


def clustered(appends: int = 8, **more: Any) -> World:
    """Noise of 300 KiB per append; a target of 1 MiB."""
    world = make_world(
        cluster_by={"columns": ["id"], "method": "hash"},
        merge={"target_size": "1MiB", "min_inputs": 2},
        **more,
    )
    for number in range(appends):
        append(world, id=[f"u-{n}-{number}" for n in range(300)], noise=noise(number))
    return world


def noise(number: int) -> list[bytes]:
    """300 KiB that no codec makes smaller."""
    chance = random.Random(number)
    return [chance.randbytes(1_000) for _ in range(300)]


@pytest.mark.long
def test_an_output_of_a_hash_cluster_is_read_only_for_its_range(tmp_path: Path) -> None:
    world = clustered()
    assert planned(world, "id = 'u-3-7'") == 8
    merge(world, tmp_path)
    parts = live(world)
    assert len(parts) > 1
    ranges = sorted((each.low, each.high) for m in parts for each in m.hashes())
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 2**32 - 1
    for number in range(8):
        assert planned(world, f"id = 'u-7-{number}'") == 1
        assert found(world, f"id = 'u-7-{number}'") == [f"u-7-{number}"]


@pytest.mark.long
def test_what_a_delete_leaves_of_an_output_keeps_its_range(tmp_path: Path) -> None:
    world = clustered()
    merge(world, tmp_path)
    before = Counter(m.hashes() for m in live(world))
    run_delete(
        Work(world.table, RUN, lambda: engine(world, tmp_path)), DeleteOptions(where="id = 'u-3-7'")
    )
    assert Counter(m.hashes() for m in live(world)) == before
    assert planned(world, "id = 'u-3-8'") == 1
