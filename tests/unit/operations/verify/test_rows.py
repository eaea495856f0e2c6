"""The audit of rows: parts are compared with the digests that their markers state."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.log.records import Marker
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions, RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.verify.rows import chosen
from firnline.operations.verify.run import VerifyProgress, VerifyReport, run_verify
from tests.support.histories import RUN, append, filled, merge, state
from tests.support.world import World

ROWS = VerifyOptions(rows=True)


def audit(world: World) -> VerifyReport:
    return run_verify(Work(world.table), ROWS)


def damage(world: World, key: str, *, name: str) -> None:
    """Another value in one row, in an object of the same size."""
    data, at = world.store.objects[key]
    old = pq.read_table(io.BytesIO(data))
    pairs = pq.read_metadata(io.BytesIO(data)).metadata
    values = old["name"].to_pylist()
    wrong = old.set_column(
        old.column_names.index("name"), "name", pa.array([name, *values[1:]])
    ).replace_schema_metadata(pairs)
    sink = io.BytesIO()
    pq.write_table(wrong, sink)
    world.store.objects[key] = (sink.getvalue(), at)


def test_parts_of_appends_and_merges_hold_the_rows_that_their_markers_state(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 100)
    live = state(world).live
    assert all(marker.g for marker in live.values())
    told: list[VerifyProgress] = []
    report = run_verify(Work(world.table, tell=told.append), ROWS)
    assert report.healthy
    assert (report.checked.read_parts, report.checked.unstated_parts) == (len(live), 0)
    assert report.checked.read_rows == report.checked.rows
    assert (told[-1].parts_done, told[-1].parts) == (len(live), len(live))


def test_a_part_with_another_value_is_found_years_later(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    key = sorted(state(world).live)[0]
    damage(world, key, name="nobody")
    report = audit(world)
    (found,) = [each for each in report.findings if each.kind == "part-rows"]
    assert found.object == key
    assert found.severity == "error"
    assert not report.healthy
    assert "part-rows" not in run_verify(Work(world.table), VerifyOptions(deep=True)).kinds


def test_a_part_that_does_not_read_is_one_finding(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    key = sorted(state(world).live)[0]
    data, at = world.store.objects[key]
    world.store.objects[key] = (data[:-9] + bytes([data[-9] ^ 255]) + data[-8:], at)
    assert audit(world).kinds.get("rows-unreadable") == 1


@pytest.mark.long
def test_changes_of_the_schema_raise_no_false_alarm(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    change = Evolution(rename={"name": "title"})
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=change))
    append(world, 100)
    assert audit(world).healthy
    merge(world, tmp_path)
    assert audit(world).healthy
    assert all(marker.g for marker in state(world).live.values())


def test_parts_of_other_writers_count_as_not_stated(tmp_path: Path) -> None:
    world = filled()
    live = state(world).live
    unstated = {key: Marker(p=m.p, b=m.b, t=m.t, n=m.n) for key, m in live.items()}
    assert not any(marker.g for marker in unstated.values())
    merge(world, tmp_path)
    assert audit(world).checked.unstated_parts == 0


def test_each_part_has_its_turn_within_as_many_days_as_the_sample_is_large() -> None:
    live = {f"part {n}": Marker(p=f"part {n}", b=1, t=1) for n in range(50)}
    day = 86_400_000
    turns = [{m.p for m in chosen(live, 7, n * day)} for n in range(20, 27)]
    assert set().union(*turns) == set(live)
    assert sum(map(len, turns)) == len(live)
    assert len(chosen(live, 1, 5 * day)) == len(live)


def test_a_rebuilt_log_states_the_digests_of_footers(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    before = {key: marker.g for key, marker in state(world).live.items()}
    for key in [k for k in world.store.objects if "/_log/" in k or "/_txn/" in k]:
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions(include=("*",), force=True, revive=True))
    after = {key: marker.g for key, marker in state(world).live.items()}
    assert {key: after[key] for key in before if key in after} == {
        key: before[key] for key in before if key in after
    }
    assert any(after.values())
