from __future__ import annotations

import pytest

from firnline.errors import PlanChangedError, UsageError
from firnline.operations.drop.plan import describe, plan_drop, version_of
from tests.support.log_tables import put_append, snapshot
from tests.support.world import World, make_world


def filled() -> World:
    world = make_world()
    put_append(world, "d=1", "d=2", "e/d=1", rows=10, size=100)
    put_append(world, "d=1", rows=5, size=50)
    return world


def test_a_drop_takes_all_live_parts_of_what_was_named_and_no_other() -> None:
    state = snapshot(filled())
    plan = plan_drop(state, ["d=1", "d=1"], {})
    assert {m.p for r in plan.removals for m in r.parts} == {m.p for m in state.partitions["d=1"]}
    assert (plan.parts, plan.rows, plan.bytes, plan.parts_without_rows) == (2, 15, 150, 0)
    assert plan.requests == 10
    assert not plan.nothing_to_do
    data = plan.to_json()
    assert (data["parts"], data["rows"], data["seq"]) == (2, 15, 0)
    assert [p["partition"] for p in data["partitions"]] == ["d=1"]


def test_a_partition_that_does_not_exist_is_refused_with_near_names() -> None:
    with pytest.raises(UsageError, match=r"no partition 'd=3'; give exact names, such as d=[12]"):
        plan_drop(snapshot(filled()), ["d=1", "d=3"], {})
    with pytest.raises(UsageError, match="'d=8', nor 1 more of those named"):
        plan_drop(snapshot(filled()), ["d=8", "d=9"], {})
    with pytest.raises(UsageError, match="has no partition; append"):
        plan_drop(snapshot(make_world()), ["d=1"], {})
    with pytest.raises(UsageError, match="no partition was named"):
        plan_drop(snapshot(filled()), [], {})


def test_globs_are_no_names() -> None:
    with pytest.raises(UsageError, match="give exact names"):
        plan_drop(snapshot(filled()), ["d=*"], {})


def test_a_version_changes_with_the_parts_and_with_nothing_else() -> None:
    world = filled()
    before = snapshot(world).partitions
    put_append(world, "d=2")
    after = snapshot(world).partitions
    assert version_of(before["d=1"]) == version_of(list(reversed(after["d=1"])))
    assert version_of(before["d=2"]) != version_of(after["d=2"])
    assert len(version_of(before["d=1"])) == 16


def test_what_changed_since_it_was_listed_is_named_with_what_it_holds_now() -> None:
    world = filled()
    listed = {name: version_of(found) for name, found in snapshot(world).partitions.items()}
    put_append(world, "d=2", rows=7, size=70)
    del listed["e/d=1"]
    plan_drop(snapshot(world), ["d=1"], {"d=1": listed["d=1"]})
    with pytest.raises(PlanChangedError) as raised:
        plan_drop(snapshot(world), ["d=1", "d=2"], {**listed, "d=7": "0"})
    text = str(raised.value)
    assert text.startswith("2 of 3 partitions changed after the list was made: ")
    assert "d=2 has 2 parts now (17 rows, 170 B), d=7 is gone" in text
    assert raised.value.exit_code == 2


def test_rows_are_unknown_where_a_foreign_writer_did_not_count_them() -> None:
    world = filled()
    put_append(world, "f", rows=None, size=1)  # as a foreign writer does
    put_append(world, "f", rows=3, size=1)
    markers = snapshot(world).partitions["f"]
    found = describe("f", markers)
    assert (found.parts, found.rows, found.bytes) == (2, None, 2)
    assert found.oldest_ms < found.newest_ms == world.clock.now
    plan = plan_drop(snapshot(world), ["f"], {})
    assert (plan.rows, plan.parts_without_rows) == (3, 1)
