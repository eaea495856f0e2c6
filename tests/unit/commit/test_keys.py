"""What a primary key asks of those who replace parts, rule by rule."""

from __future__ import annotations

import re
from typing import Any

import pytest

from firnline.commit import keys
from firnline.commit.base import take_base
from firnline.commit.keys import check_deleted, forgettable, may_go, ranks, stretches
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, UsageError
from firnline.log import codec
from firnline.log.records import LogContent, Marker, stats_json
from firnline.log.txn_file import Counts, RunIdentity
from firnline.state.snapshot import Snapshot
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

HOUR = 3_600_000
SCHEMA = {"id": "INTEGER", "v": "INTEGER", "gone": "BOOLEAN"}
BRIEF = {"append": {"ttl": "1h"}, "cleanup": {"grace": "1h"}}


def keyed(**settings: Any) -> World:
    return make_world(**{"primary_key": ["id"], **settings})


def part(
    name: str, first: int, last: int | None = None, d: int = 1, t: int | None = None, **stats: Any
) -> Marker:
    order = (first, first if last is None else last)
    bounds = stats_json({column: tuple(value) for column, value in stats.items()})
    at = order[1] if t is None else t
    return Marker(p=f"t/_data/d={d}/{name}.parquet", b=1, t=at, n=1, q=0, o=order, s=bounds)


def put(world: World, *markers: Marker) -> Snapshot:
    """One log file with these parts; the state then."""
    world.clock.advance(1)
    t = world.clock.now
    content = LogContent(t=t, schema=SCHEMA, markers=list(markers))
    world.store.put_new(f"t/_log/{t}_w-{world.ids.uuid7(t)}.jsonl", codec.encode(content))
    return snapshot(world)


def bring(world: World, *markers: Marker) -> Snapshot:
    """A transaction that brings parts, as a restore does; the state then."""
    world.clock.advance(1)
    rows = len(markers)
    counts = Counts(parts_out=rows, rows_out=rows, rows_removed=-rows)
    change = Change("restore", (), markers, counts)
    commit(world.table, take_base(world.table), change, RunIdentity())
    return snapshot(world)


def names(found: Any) -> list[str]:
    return sorted(re.findall(r"/(\w+)\.parquet", " ".join(getattr(m, "p", m) for m in found)))


# --- what differs between the rows of a key -------------------------------------------------------


def test_rows_of_a_key_agree_in_its_columns_and_those_that_the_path_takes_as_they_are() -> None:
    settings = keyed(partition_by=["d", "day(ts)"]).settings
    assert settings.outside_key(["ID", "d", "ts", "v"]) == ("ts", "v")
    assert make_world().settings.outside_key(["v"]) == ()


def test_the_column_of_key_tombstones_has_to_be_there_and_a_boolean() -> None:
    settings = keyed(deleted="gone").settings
    check_deleted(settings, {})
    check_deleted(settings, SCHEMA)
    check_deleted(keyed().settings, {"id": "INTEGER"})
    with pytest.raises(UsageError, match="missing"):
        check_deleted(settings, {"id": "INTEGER"})
    with pytest.raises(UsageError, match="is INTEGER"):
        check_deleted(settings, {"gone": "INTEGER"})


# --- parts of one time ----------------------------------------------------------------------------


def test_parts_that_were_inserted_at_one_time_stay_together() -> None:
    parts = [part("c", 20), part("b", 10), part("a", 10), part("z", 5, d=2)]
    first = parts[:3]
    assert [names(unit) for unit in keys.units(first)] == [["a", "b"], ["c"]]
    assert list(keys.units([])) == []
    assert [ranks(parts)[m.p] for m in parts] == [0, 1, 0, 0]
    every = frozenset(m.p for m in first)
    whole = [[names(unit) for unit in run] for run in stretches(first, every)]
    assert whole == [[["a", "b"], ["c"]]]
    for missing, left in (("a", [[["c"]]]), ("c", [[["a", "b"]]])):
        ready = every - {part(missing, 0).p}
        assert [[names(unit) for unit in run] for run in stretches(first, ready)] == left


# --- what a new part is made of is neighbours -----------------------------------------------------


@pytest.mark.parametrize(
    ("came", "refused"),
    [
        (part("b", 20), True),
        (part("b", 10), True),
        (part("b", 30), True),
        (part("b", 10, 30), True),
        (part("b", 9), False),
        (part("b", 31), False),
        (part("b", 9, 20), False),
        (part("b", 20, 31), False),
        (part("b", 20, d=2), False),
    ],
)
def test_a_part_that_came_between_those_of_a_group_is_a_conflict(
    came: Marker, refused: bool
) -> None:
    world = keyed()
    old = [part("a", 10), part("c", 30)]
    planned = put(world, *old)
    now = put(world, came)
    gone = frozenset(m.p for m in old)
    new = part("new", 10, 30)

    def refuse(adds: list[Marker], settings: Any = world.settings) -> None:
        keys.refuse_between(now, settings, planned, gone, adds)

    if refused:
        with pytest.raises(CommitConflictError, match=r"/b\.parquet"):
            refuse([new])
    else:
        refuse([new])
    refuse([new], make_world().settings)


def test_what_was_there_and_stays_is_no_conflict() -> None:
    world = keyed()
    planned = put(world, part("a", 10), part("twin", 10, 30))
    gone = frozenset({part("a", 10).p})
    keys.refuse_between(planned, world.settings, planned, gone, [part("new", 10, 30)])


# --- nothing older comes beneath what is replaced -------------------------------------------------


def beneath(
    replaces: str, came: Marker, *, by_append: bool = False, **settings: Any
) -> CommitConflictError | None:
    """What is said when ``came`` lands while parts a (10) and b (20) are replaced."""
    world = keyed()
    old = [part("a", 10), part("b", 20)]
    planned = put(world, *old)
    now = bring(world, *([] if by_append else [came]))
    if by_append:
        now = put(world, came)
    gone = [m.p for m in old if m.p.rpartition("/")[2][0] in replaces]
    rules = keyed(**settings).settings
    keys.refuse_beneath(now, make_world().settings, planned, gone)
    try:
        keys.refuse_beneath(now, rules, planned, gone)
    except CommitConflictError as conflict:
        return conflict
    return None


def test_what_is_restored_beneath_the_first_parts_of_a_partition_is_a_conflict() -> None:
    assert beneath("a", part("old", 5))
    assert beneath("ab", part("old", 15))
    assert beneath("a", part("old", 15)) is None, "it comes after them"
    assert beneath("b", part("old", 5)) is None, "what hides nothing alone is not left out"
    assert beneath("a", part("old", 5, d=2)) is None, "of another partition"
    assert beneath("a", part("old", 5), by_append=True) is None, "a late append is waited for"


def test_with_versions_anything_restored_beside_a_whole_partition_is_a_conflict() -> None:
    assert beneath("ab", part("old", 25), version="v")
    assert beneath("ab", part("old", 25)) is None
    assert beneath("a", part("old", 5), version="v") is None, "tombstones stay with it"


# --- key tombstones that hide nothing -------------------------------------------------------------


def forgotten(world: World, group: list[Marker], age: int, *others: Marker) -> list[str]:
    """What of a group is forgettable so long after its newest part."""
    state = put(world, *group, *others)
    now = max(m.t for m in group) + age
    return names(forgettable(state, world.settings, "d=1", group, now))


def test_key_tombstones_of_the_first_parts_go_once_no_append_can_land_beneath_them() -> None:
    settings = {"deleted": "gone", **BRIEF}
    group = [part("a", 10), part("b", 20)]
    later = part("c", 30)
    assert forgotten(keyed(**settings), group, 2 * HOUR, later) == ["a", "b"]
    assert forgotten(keyed(**settings), group, 2 * HOUR - 1, later) == ["a"]
    assert forgotten(keyed(**settings), group, 3 * HOUR, part("old", 15)) == []
    assert forgotten(keyed(**BRIEF), group, 3 * HOUR) == []


def test_with_versions_they_need_the_whole_partition_and_the_time_that_settings_name() -> None:
    settings = {"deleted": "gone", "version": "v", **BRIEF}
    group = [part("a", 10)]
    assert forgotten(keyed(**settings), group, 9 * HOUR) == []
    settings["deleted_keep"] = "3h"
    assert forgotten(keyed(**settings), group, 3 * HOUR) == ["a"]
    assert forgotten(keyed(**settings), group, 3 * HOUR - 1) == []
    assert forgotten(keyed(**settings), group, 3 * HOUR, part("c", 30)) == []
    assert forgotten(keyed(**settings), group, 3 * HOUR, part("c", 30, d=2)) == ["a"]


def test_a_place_in_the_order_that_is_years_ahead_does_not_make_a_part_young() -> None:
    world = keyed(deleted="gone", **BRIEF)
    ahead = part("a", 10, 10 + 90_000 * HOUR, t=10)
    assert forgotten(world, [ahead], 2 * HOUR) == ["a"]


# --- what may go as a whole -----------------------------------------------------------------------


def going(gone: list[Marker], *stay: Marker, **settings: Any) -> list[str]:
    world = keyed(**settings)
    state = put(world, *gone, *stay)
    assert names(may_go(state, make_world().settings, "d=1", gone)) == names(gone)
    return names(may_go(state, world.settings, "d=1", gone))


@pytest.mark.parametrize(
    ("mine", "theirs", "goes"),
    [
        ((6, 9, 0), (1, 5, 0), True),
        ((5, 9, 0), (1, 5, 0), False),
        ((1, 5, 0), (6, 9, 0), True),
        ((1, 5, 0), (5, 9, 0), False),
        ((6, 9, 0), (1, 5, 1), False),
        ((6, 9, 1), (1, 5, 0), False),
        ((6, 9, 0), (None, None, 0), False),
        ((6, 9, 0), ("x", "y", 0), False),
    ],
)
def test_a_part_goes_only_where_no_older_part_may_hold_one_of_its_keys(
    mine: Any, theirs: Any, goes: bool
) -> None:
    old, new = part("old", 10, id=theirs), part("new", 20, id=mine)
    assert going([new], old) == (["new"] if goes else [])
    assert going([old], new) == ["old"], "what came later stays the winner"


def test_bounds_that_nobody_knows_meet_all_others() -> None:
    assert going([part("new", 20, id=(6, 9, 0))], part("old", 10)) == []
    assert going([part("new", 20)], part("old", 10, id=(1, 5, 0))) == []


def test_what_stays_because_of_one_part_may_keep_the_next() -> None:
    old, mid = part("a", 10, id=(1, 5, 0)), part("b", 20, id=(4, 9, 0))
    new, far = part("c", 30, id=(8, 12, 0)), part("e", 40, id=(90, 99, 0))
    assert going([mid, new, far], old) == ["e"]
    assert going([old, mid, new]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("theirs", "goes"),
    [((30, 40, 0), True), ((20, 30, 0), False), ((1, 5, 0), False), (None, False)],
)
def test_with_versions_it_goes_only_beside_parts_of_larger_ones(theirs: Any, goes: bool) -> None:
    versions = {} if theirs is None else {"v": theirs}
    gone = part("b", 20, id=(1, 5, 0), v=(10, 20, 0))
    for at in (10, 30):
        other = part("other", at, id=(1, 5, 0), **versions)
        assert going([gone], other, version="v") == (["b"] if goes else [])
    without = part("b", 20, id=(1, 5, 0))
    assert going([without], part("other", 10, id=(1, 5, 0), **versions), version="v") == []


def test_beside_hundreds_of_parts_it_stays_without_a_look_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "_COMPARED", 2)
    new = part("new", 90, id=(1, 2, 0))
    apart = [part(f"p{number}", number, id=(number, number, 0)) for number in (10, 20, 30)]
    assert going([new], *apart[:2]) == ["new"]
    assert going([new], *apart) == []


def test_rows_are_hidden_by_columns_of_the_key_and_of_the_partition_alone() -> None:
    settings = keyed(partition_by=["d"]).settings
    keys.refuse_outside_key(settings, ["id", "D"], "a lazy delete", next_step="-")
    with pytest.raises(UsageError, match=r"a lazy delete on table t .* its primary key .id., not"):
        keys.refuse_outside_key(settings, ["id", "v"], "a lazy delete", next_step="-")
