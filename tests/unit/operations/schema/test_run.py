"""A column of two types becomes one of one type, or two columns; no value is lost."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import SchemaConflictError, UsageError
from firnline.kernel.engine import Engine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.records import Delete
from firnline.log.txn_file import Counts
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    ColumnFix,
    MergeOptions,
    RebuildOptions,
    SchemaFixOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.schema.run import (
    SchemaFixFailedError,
    SchemaFixReport,
    preview,
    run_schema_fix,
)
from firnline.operations.verify.run import run_verify
from firnline.parquet.part import read_pairs
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from tests.support.conflicts import RUN, conflicting, engine, fix, foreign_append, values
from tests.support.log_tables import v1_live
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

OURS = [1, 2, 3, 4] * 2
GRACE = 24 * 3600 * 1000


def objects(world: World) -> set[str]:
    return set(world.store.objects)


def schema(world: World) -> dict[str, str]:
    return dict(read_snapshot(world.store, world.table.paths).schema)


# --- one type ------------------------------------------------------------------------------------


def test_parts_with_another_type_are_cast_and_every_reader_reads_again(tmp_path: Path) -> None:
    world = conflicting()
    with pytest.raises(SchemaConflictError, match="firnline schema fix"):
        read_snapshot(world.store, world.table.paths)
    report = fix(world, tmp_path, type="BIGINT")
    assert values(world) == [*OURS, 7, 5, 6]
    assert schema(world) == {"id": "BIGINT", "day": "BIGINT", "v": "BIGINT"}
    assert (report.counts.parts_in, report.counts.parts_out) == (1, 1)
    assert (report.counts.rows_in, report.counts.rows_out) == (3, 3)
    assert (report.transaction, report.conflict, report.failures) == (1, None, ())
    everything = read_snapshot(world.store, world.table.paths, everything=True)
    assert everything.schema == schema(world)
    assert v1_live(world) == set(everything.live)


@pytest.mark.long
def test_all_parts_may_get_a_type_that_none_of_them_has(tmp_path: Path) -> None:
    world = conflicting("1.5", "2")
    report = fix(world, tmp_path, type="DOUBLE")
    assert values(world) == [*map(float, OURS), 1.5, 2.0]
    assert report.counts.parts_in == 5
    assert schema(world)["v"] == "DOUBLE"


@pytest.mark.long
def test_the_other_type_may_be_kept(tmp_path: Path) -> None:
    world = conflicting()
    report = fix(world, tmp_path, type="varchar")
    assert values(world) == [*map(str, OURS), "7", "05", "6"]
    assert report.counts.parts_in == 4


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    world = conflicting()
    fix(world, tmp_path, type="BIGINT")
    before = objects(world)
    again = fix(world, tmp_path, type="BIGINT")
    assert again.transaction is None
    assert objects(world) == before


@pytest.mark.long
def test_a_part_keeps_its_place_in_the_order_and_what_its_footer_says(tmp_path: Path) -> None:
    world = conflicting("10", "9", "8")
    old = take_base(world.table, tolerant=True).snapshot
    before = next(m for m in old.live.values() if m.n is None)
    fix(world, tmp_path, type="BIGINT")
    state = read_snapshot(world.store, world.table.paths)
    (new,) = state.live.keys() - old.live.keys()
    marker = state.live[new]
    assert (marker.q, marker.order(), marker.n) == (0, before.order(), 3)
    assert marker.stats()["v"] == (8, 10, 0)
    file = pq.ParquetFile(io.BytesIO(world.store.objects[new][0]))
    assert file.read().column("v").to_pylist() == [8, 9, 10]
    said = read_pairs(new, file.metadata.metadata)
    assert said is not None
    assert (said.writer, said.q, said.o) == ("schema-fix", 0, before.order())
    assert said.replaces == (before.p.rpartition("/")[2],)
    assert (said.rows, said.partition) == (3, "day=0")


def test_a_value_that_the_type_cannot_hold_is_named_and_nothing_changes(tmp_path: Path) -> None:
    world = conflicting("7", "n/a", "n/a")
    bad = foreign_append(world, ("5", "x"))
    before = objects(world)
    with pytest.raises(SchemaFixFailedError) as caught:
        fix(world, tmp_path, type="BIGINT")
    text = str(caught.value)
    assert "2 values that BIGINT cannot hold exactly, such as 'n/a'" in text
    assert "column 'v' (VARCHAR)" in text
    assert {f.key for f in caught.value.report.failures} > {bad}
    assert len(caught.value.report.failures) == 2
    assert objects(world) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_letters_of_either_case_become_those_that_are_given(tmp_path: Path) -> None:
    world = conflicting(appends=1)
    foreign_append(world, (8,), states="BIGINT", column="V")
    fix(world, tmp_path, type="BIGINT")
    assert values(world) == [1, 2, 3, 4, 7, 5, 6, 8]
    assert "V" not in schema(world)


def test_only_a_case_conflict_is_mended_by_the_spelling_to_keep(tmp_path: Path) -> None:
    world = make_world(partition_by=["day"])
    Appender(world.table).append(pa.table({"id": [1], "day": [0], "User": ["a"]}))
    foreign_append(world, ("b",), column="user")
    with pytest.raises(SchemaConflictError, match="--column User --type VARCHAR"):
        read_snapshot(world.store, world.table.paths)
    fix(world, tmp_path, column="User", type="VARCHAR")
    assert values(world, "User") == ["a", "b"]
    world.clock.advance(2 * GRACE)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert len([k for k in objects(world) if "/_log/" in k]) <= 3


# --- two names -----------------------------------------------------------------------------------


def test_a_renamed_column_loses_no_value(tmp_path: Path) -> None:
    world = conflicting("7", "n/a", "05")
    report = fix(world, tmp_path, rename="v_text")
    assert schema(world) == {
        "id": "BIGINT", "day": "BIGINT", "v": "BIGINT", "v_text": "VARCHAR",
    }  # fmt: skip
    assert values(world)[-3:] == [None, None, None]
    assert values(world, "v_text")[-3:] == ["7", "n/a", "05"]
    assert report.counts.parts_in == 1


@pytest.mark.long
def test_the_same_new_name_serves_the_next_wrong_append(tmp_path: Path) -> None:
    world = conflicting("n/a")
    fix(world, tmp_path, rename="v_text")
    foreign_append(world, ("again",))
    fix(world, tmp_path, rename="v_text")
    assert values(world, "v_text")[-2:] == ["n/a", "again"]


@pytest.mark.long
def test_with_three_types_one_after_the_other_gets_a_name(tmp_path: Path) -> None:
    world = conflicting("n/a")
    foreign_append(world, (1.5,), states="DOUBLE")
    with pytest.raises(UsageError, match="--where-type"):
        fix(world, tmp_path, rename="other")
    first = fix(world, tmp_path, rename="v_text", where_types=("VARCHAR",))
    assert first.conflict is not None
    assert "DOUBLE" in first.conflict
    with pytest.raises(SchemaConflictError, match="DOUBLE"):
        read_snapshot(world.store, world.table.paths)
    second = fix(world, tmp_path, rename="v_float")
    assert second.conflict is None
    assert values(world, "v_text")[-2:] == ["n/a", None]
    assert values(world, "v_float")[-2:] == [None, 1.5]


# --- footers decide ------------------------------------------------------------------------------


def test_a_log_file_that_states_a_wrong_type_of_right_parts_is_folded_alone(
    tmp_path: Path,
) -> None:
    world = one_number()
    key = foreign_append(world, (8, 9))
    report = fix(world, tmp_path, type="BIGINT")
    assert (report.transaction, report.counts) == (1, Counts(logs_folded=1))
    assert key in read_snapshot(world.store, world.table.paths).live
    assert values(world) == [1, 8, 9]


def test_a_table_whose_only_log_file_is_wrong_is_corrected_when_all_parts_are_asked(
    tmp_path: Path,
) -> None:
    world = make_world()
    foreign_append(world, (8, 9))
    with pytest.raises(UsageError, match="nothing contradicts it"):
        fix(world, tmp_path, type="BIGINT")
    fix(world, tmp_path, type="BIGINT", all_parts=True)
    assert schema(world)["v"] == "BIGINT"
    assert values(world) == [8, 9]


def test_parts_that_contradict_their_own_log_file_are_found_when_all_are_asked(
    tmp_path: Path,
) -> None:
    world = one_number()
    foreign_append(world, ("8",), states="BIGINT")
    assert fix(world, tmp_path, type="BIGINT").transaction is None
    fix(world, tmp_path, type="BIGINT", all_parts=True)
    assert values(world) == [1, 8]


def test_a_column_that_no_log_file_states_is_stated_when_all_parts_are_asked(
    tmp_path: Path,
) -> None:
    world = one_number()
    wrong = foreign_append(world, ("8",), w=["x"])
    name = next(k for k in world.store.objects if "old-job" in k)
    data, t = world.store.objects[name]
    world.store.objects[name] = (data.replace(b', "w": "VARCHAR"', b""), t)
    fix(world, tmp_path, type="BIGINT")
    report = run_verify(Work(world.table), VerifyOptions(deep=True))
    assert report.kinds == {"footer-schema": 1}
    assert "schema fix t --column w --type VARCHAR --all-parts" in report.findings[0].next_step
    with pytest.raises(UsageError, match="no log file states a column 'w'"):
        fix(world, tmp_path, column="w", type="VARCHAR")
    with pytest.raises(UsageError, match="neither a log file nor a part"):
        fix(world, tmp_path, column="x", type="VARCHAR", all_parts=True)
    made = fix(world, tmp_path, column="w", type="VARCHAR", all_parts=True)
    assert (made.counts.parts_in, made.counts.logs_folded) == (0, 1)
    assert schema(world)["w"] == "VARCHAR"
    assert values(world, "w") == [None, "x"]
    assert wrong not in read_snapshot(world.store, world.table.paths).live
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_a_part_that_cannot_be_read_stops_it_unless_it_is_to_be_left(tmp_path: Path) -> None:
    world = conflicting()
    cut, damaged = (foreign_append(world, ("8",)) for _ in range(2))
    data, t = world.store.objects[cut]
    world.store.objects[cut] = (data[:-9] + b"\0" * 9, t)
    data, t = world.store.objects[damaged]
    world.store.objects[damaged] = (data[:4] + b"\xff" * 40 + data[44:], t)
    before = objects(world)
    with pytest.raises(SchemaFixFailedError) as caught:
        fix(world, tmp_path, type="BIGINT")
    assert [f.key for f in caught.value.report.failures] == [cut]
    assert objects(world) == before
    report = fix(world, tmp_path, type="BIGINT", leave_unreadable=True)
    assert {f.key for f in report.left} == {cut, damaged}
    state = read_snapshot(world.store, world.table.paths)
    assert {cut, damaged} <= state.live.keys()
    assert state.schema["v"] == "BIGINT"


# --- several columns -----------------------------------------------------------------------------


@pytest.mark.long
def test_columns_that_conflict_together_are_mended_together_or_one_by_one(tmp_path: Path) -> None:
    def world() -> World:
        made = make_world(partition_by=["day"])
        rows = {"id": [1], "day": [0], "v": [1], "w": [1.5]}
        Appender(made.table).append(pa.table(rows))
        foreign_append(made, ("2",), w=["2.5"])
        foreign_append(made, ("3",), w=["3.5"])
        return made

    both = (ColumnFix(column="v", type="BIGINT"), ColumnFix(column="w", type="DOUBLE"))
    together = world()
    report = fix(together, tmp_path, fixes=both)
    assert (report.conflict, report.counts.parts_in) == (None, 2)
    apart = world()
    assert "'w'" in str(fix(apart, tmp_path, fixes=both[:1]).conflict)
    assert fix(apart, tmp_path, fixes=both[1:]).conflict is None
    for repaired in (together, apart):
        assert values(repaired) == [1, 2, 3]
        assert values(repaired, "w") == [1.5, 2.5, 3.5]


def test_files_that_contradict_each_other_elsewhere_too_need_both_columns(tmp_path: Path) -> None:
    world = one_number()
    foreign_append(world, ("2",), w=["2.5"])
    foreign_append(world, ("3",), w=[3.5])
    with pytest.raises(UsageError, match=r"column 'w' is VARCHAR .* but DOUBLE"):
        fix(world, tmp_path, type="BIGINT")


# --- deletes and keys ----------------------------------------------------------------------------


def with_delete(value: bytes = b"3") -> World:
    """A lazy delete of ``v = 3``, committed before the foreign append came."""
    world = one_number(1, 2, 3)
    where = msgspec.Raw(b'{"op":"=","column":"v","value":' + value + b"}")
    record = Delete(id="d-1", seq=0, t=0, where=where)
    change = Change(op="delete", replaces=(), adds=(), counts=Counts(), deletes=(record,))
    commit(world.table, take_base(world.table), change, RUN)
    return world


def test_a_delete_that_is_pending_stays_pending(tmp_path: Path) -> None:
    world = with_delete()
    late = foreign_append(world, ("3", "4"))
    # Its clock was behind: it came before the delete by its own time.
    log = next(k for k in world.store.objects if "old-job" in k)
    data, t = world.store.objects.pop(log)
    behind = 10**13 // 10 + 1
    text = data.decode().replace(f'"t": {t}', f'"t": {behind}')
    world.store.objects[log.replace(str(t), str(behind))] = (text.encode(), t)
    fix(world, tmp_path, type="BIGINT")
    state = read_snapshot(world.store, world.table.paths)
    assert late not in state.live
    pending = {p: len(state.pending_deletes(m, "day=0")) for p, m in state.live.items()}
    assert sorted(pending.values()) == [1, 1]


def test_a_type_in_which_a_pending_delete_makes_no_sense_is_refused(tmp_path: Path) -> None:
    world = with_delete()
    foreign_append(world, ("x",))
    before = objects(world)
    with pytest.raises(UsageError, match="delete d-1 may still hide rows"):
        fix(world, tmp_path, type="VARCHAR")
    assert objects(world) == before


@pytest.mark.parametrize(
    "settings", [{"primary_key": ["v"]}, {"primary_key": ["id"], "version": "v"},
                 {"partition_by": ["v"]}]
)  # fmt: skip
def test_a_column_that_tells_rows_apart_is_not_renamed(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    world = conflicting(**settings)
    with pytest.raises(UsageError, match="rows need it"):
        fix(world, tmp_path, rename="w")


@pytest.mark.long
def test_rows_of_one_key_stay_until_a_merge(tmp_path: Path) -> None:
    world = conflicting("1", "01", primary_key=["v"], appends=1)
    report = fix(world, tmp_path, type="BIGINT")
    assert report.counts.rows_out == 2
    assert values(world) == [1, 2, 3, 4, 1, 1]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"column": "x", "type": "BIGINT"}, "the columns are id, day, v"),
        ({}, "a type or a new name"),
        ({"type": "BIGINT", "rename": "w"}, "a type or a new name"),
        ({"type": "NUMBER"}, "'NUMBER' is not a SQL type"),
        ({"type": "HUGEINT"}, r"Parquet has no HUGEINT.* choose DECIMAL\(38,0\)"),
        ({"type": "BIGINT", "where_types": ("DATE",)}, "no log file states column 'v' as DATE"),
        ({"type": "BIGINT", "where_types": ("BIGINT",)}, "is the type that column 'v' keeps"),
        ({"rename": "V"}, "no other name"),
        ({"rename": "ID"}, "speak of id BIGINT"),
        ({"rename": "id"}, "already"),
        ({"fixes": (ColumnFix(column="v", type="BIGINT"),) * 2}, "named twice"),
        ({"column": "id", "type": "VARCHAR"}, "is BIGINT in every log file"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_changes_nothing(
    given: dict[str, object], says: str, tmp_path: Path
) -> None:
    world = conflicting()
    before = objects(world)
    with pytest.raises(UsageError, match=says):
        fix(world, tmp_path, **given)
    assert objects(world) == before


def test_a_plan_is_plain_data_and_changes_nothing(tmp_path: Path) -> None:
    world = conflicting()
    before = objects(world)
    options = SchemaFixOptions(fixes=(ColumnFix(column="v", type="BIGINT"),))
    plan = preview(world.table, options)
    data = plan.to_json()
    assert data["columns"] == [{"column": "v", "type": "BIGINT", "rename": None}]
    assert [f["writer"] for f in data["log_files"]] == ["old-job"]
    assert (data["parts_checked"], data["parts_to_rewrite"]) == (1, 1)
    assert data["types_found"] == {"v": {"VARCHAR": 1}}
    assert data == msgspec.json.decode(msgspec.json.encode(data))
    dry = fix(world, tmp_path, type="BIGINT", dry_run=True)
    assert (dry.transaction, dry.plan) == (None, data)
    assert objects(world) == before


# --- beside others -------------------------------------------------------------------------------


@dataclass
class Beside:
    """An engine that lets somebody else act once before the kernels run."""

    inner: Engine
    act: Callable[[], object] | None
    application_id: str = "app-1"

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        act, self.act = self.act, None
        if act is not None:
            act()
        return self.inner.run(tasks)


def fix_beside(world: World, scratch: Path, act: Callable[[], object]) -> SchemaFixReport:
    options = SchemaFixOptions(fixes=(ColumnFix(column="v", type="BIGINT"),))
    beside = Beside(engine(world, scratch), act)
    return run_schema_fix(Work(world.table, RUN, lambda: beside), options)


def test_a_rival_that_mends_it_first_wins_and_nothing_is_doubled(tmp_path: Path) -> None:
    world = conflicting()
    report = fix_beside(world, tmp_path, lambda: fix(world, tmp_path, type="BIGINT"))
    assert (report.replans, report.transaction) == (1, None)
    assert values(world) == [*OURS, 7, 5, 6]
    named = read_snapshot(world.store, world.table.paths).parts
    assert {k for k in objects(world) if "/_data/" in k} <= named.keys()


def test_a_wrong_append_that_lands_meanwhile_is_mended_too_when_somebody_commits(
    tmp_path: Path,
) -> None:
    world = conflicting()

    def act() -> None:
        fix(world, tmp_path, rename="other", where_types=("VARCHAR",))
        foreign_append(world, ("8",))

    fix_beside(world, tmp_path, act)
    assert values(world)[-1] == 8


@pytest.mark.long
def test_a_foreign_merge_that_folds_everything_is_mended_as_well(tmp_path: Path) -> None:
    world = conflicting()
    client = V1Client(world)
    schemas = [client._read(key)[0] for key in client.log_files()]
    assert {"BIGINT", "VARCHAR"} == {line["v"] for line in schemas}
    t = world.clock.now + 1
    world.clock.advance(1)
    stones = [{"p": key, "t": t} for key in client.log_files()]
    keep = ("p", "b", "t", "tmb")
    lines = [{k: m[k] for k in keep if k in m} for m in client.markers().values()]
    client._write(f"{t}_m_other.jsonl", schemas[-1], stones, lines)
    report = fix(world, tmp_path, type="BIGINT")
    assert (report.plan["parts_checked"], report.counts.parts_in) == (5, 1)
    assert values(world) == [*OURS, 7, 5, 6]
    assert v1_live(world) == set(read_snapshot(world.store, world.table.paths).live)


# --- the others ----------------------------------------------------------------------------------


def test_a_committed_repair_that_nobody_published_is_published_by_whoever_comes(
    tmp_path: Path,
) -> None:
    world = conflicting()
    fix(world, tmp_path, type="BIGINT")
    log = next(k for k in objects(world) if "/_log/" in k and "_m_" in k)
    del world.store.objects[log]
    assert values(world) == [*OURS, 7, 5, 6], "it is committed, and readers see it"
    run_merge(Work(world.table, RUN, lambda: engine(world, tmp_path)), MergeOptions())
    assert log in world.store.objects
    assert values(world) == [*OURS, 7, 5, 6]


def test_after_the_grace_clean_up_deletes_what_v1_clients_stumble_over(tmp_path: Path) -> None:
    world = conflicting()
    fix(world, tmp_path, type="BIGINT")
    client = V1Client(world)
    assert {"BIGINT", "VARCHAR"} == {client._read(k)[0]["v"] for k in client.log_files()}
    world.clock.advance(2 * GRACE)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    world.clock.advance(2 * GRACE)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert {"BIGINT"} == {client._read(k)[0]["v"] for k in client.log_files()}
    assert values(world) == [*OURS, 7, 5, 6]
    assert [h.op for h in history(world.table)][-1] == "schema-fix"


@pytest.mark.long
def test_a_log_that_is_lost_after_a_repair_is_rebuilt_with_the_repaired_types(
    tmp_path: Path,
) -> None:
    world = conflicting()
    fix(world, tmp_path, type="VARCHAR")
    foreign_append(world, (9,), states="BIGINT")
    fix(world, tmp_path, type="BIGINT")
    assert values(world) == [*OURS, 7, 5, 6, 9]
    for key in [k for k in objects(world) if "/_log/" in k]:
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert schema(world)["v"] == "BIGINT"
    assert values(world) == [*OURS, 7, 5, 6, 9]


def test_a_deep_check_finds_the_mended_table_in_order(tmp_path: Path) -> None:
    world = conflicting()
    fix(world, tmp_path, type="BIGINT")
    report = run_verify(Work(world.table), VerifyOptions(deep=True))
    assert report.healthy, report.findings


def one_number(*numbers: int) -> World:
    """A table with one part of ours."""
    world = make_world(partition_by=["day"])
    given = list(numbers or (1,))
    rows = {"id": list(range(len(given))), "day": [0] * len(given), "v": given}
    Appender(world.table).append(pa.table(rows))
    return world
