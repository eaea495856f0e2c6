"""An orphan is named by nobody and too old to belong to anybody who is still at work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from firnline.ids import format_uuid7
from firnline.log.fence import Fence
from firnline.operations.sweep.plan import Passed, SweepPlan, plan_sweep
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.store.base import ObjectMeta
from firnline.store.upload import Upload
from tests.support.cleanups import DAY
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import START_MS, World, make_world

NOW = START_MS + 100 * DAY


def plan(
    world: World, objects: Iterable[ObjectMeta], uploads: Iterable[Upload] = (), **options: Any
) -> SweepPlan:
    passed = Passed(Fence(1, 1), NOW, NOW)  # everything was there before the fence's transaction
    chosen: Any = {
        "began_ms": NOW,
        "grace_ms": 3 * DAY,
        "limit": 1_000,
        "passed": passed,
        **options,
    }
    return plan_sweep(snapshot(world), objects, uploads, **chosen)


def part(age: int, *, modified: int | None = None, number: int = 1) -> ObjectMeta:
    """A part by the age of its name and of its object, ms."""
    name = format_uuid7(NOW - age, number)
    return ObjectMeta(
        f"t/_data/d=1/{name}.parquet", 7, NOW - (age if modified is None else modified)
    )


def test_parts_that_are_named_are_no_orphans_dead_or_alive() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    do_merge(world, keys)
    assert plan(world, world.store.list("t/_data/")).nothing_to_do


def test_an_orphan_is_old_by_its_name_and_by_its_object() -> None:
    world = make_world()
    old = part(4 * DAY, number=1)
    copied_lately = part(4 * DAY, modified=DAY, number=2)
    clock_behind = part(DAY, modified=4 * DAY, number=3)
    exactly = part(3 * DAY, number=4)
    made = plan(world, [old, copied_lately, clock_behind, exactly])
    assert [o.key for o in made.orphans] == [old.key]
    assert (made.young, made.young_bytes, made.bytes) == (3, 21, 7)
    (row,) = made.to_json()["orphans"]
    assert (row["kind"], row["age"], row["bytes"]) == ("part", 4 * DAY, 7)


@given(st.integers(-10, 10), st.integers(-10, 10), st.integers(0, 10 * DAY))
def test_nothing_younger_than_a_day_is_ever_an_orphan(
    name_hours: int, modified_hours: int, grace: int
) -> None:
    hour = 3_600_000
    ages = LEAST_ORPHAN_MS + name_hours * hour, LEAST_ORPHAN_MS + modified_hours * hour
    made = plan(make_world(), [part(ages[0], modified=ages[1])], grace_ms=grace)
    assert bool(made.orphans) == (min(ages) > max(grace, LEAST_ORPHAN_MS))


def test_a_name_that_says_no_time_is_foreign_and_goes_by_its_object() -> None:
    names = ["d=1/old.parquet", "5f3a1c7e-1111-4aaa-8bbb-123456789012.parquet", "d=1/x.tmp"]
    found = [ObjectMeta(f"t/_data/{name}", 1, NOW - 4 * DAY) for name in names]
    young = ObjectMeta("t/_data/new.parquet", 1, NOW - DAY)
    made = plan(make_world(), [*found, young])
    assert [(o.kind, o.made_ms) for o in made.orphans] == [("foreign", None)] * 3
    assert made.young == 1


def test_leftovers_of_probes_are_orphans_too() -> None:
    old, new = (f"t/_probe/{format_uuid7(NOW - age, 1)}" for age in (4 * DAY, DAY))
    found = [ObjectMeta(key, 1, NOW - 4 * DAY) for key in (old, new, "t/_probe/notes")]
    made = plan(make_world(), found)
    assert [(o.key, o.kind) for o in made.orphans] == [
        (old, "probe"),
        ("t/_probe/notes", "foreign"),
    ]


def test_uploads_are_orphans_by_their_beginning_also_of_a_key_that_is_named() -> None:
    world = make_world()
    (key,) = put_append(world)
    uploads = [Upload(key, "u1", NOW - 4 * DAY), Upload(part(DAY).key, "u2", NOW - DAY)]
    made = plan(world, [], uploads)
    assert [(o.key, o.kind) for o in made.orphans] == [(f"{key}?uploadId=u1", "upload")]
    assert made.young == 1


def test_what_is_more_than_one_run_may_delete_is_counted() -> None:
    made = plan(make_world(), [part(4 * DAY, number=n) for n in range(5)], limit=2)
    assert (len(made.orphans), made.more, made.more_bytes) == (2, 3, 21)
