"""Pure plans of a repair: what is wrong, what has to be looked at, what a log file will say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import CommitConflictError, SchemaConflictError, UsageError
from firnline.kernel.task import Conversion
from firnline.operations.options import ColumnFix
from firnline.operations.schema.plan import SchemaFixPlan, aim, plan_schema_fix
from firnline.operations.schema.repairs import line_of, repaired, wrong_files
from firnline.operations.schema.target import Target, disputes, statements, targets_of
from firnline.parquet.footers import FooterFacts
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.types.schema import union
from tests.support.log_tables import do_merge, put_append
from tests.support.world import World, make_world

A, B, C = {"k": "BIGINT", "v": "INTEGER"}, {"k": "BIGINT", "v": "VARCHAR"}, {"v": "DOUBLE"}


def table(*lines: dict[str, str], sizes: tuple[int, ...] = ()) -> tuple[World, list[str]]:
    """One append with one part for each schema line; the keys of the parts."""
    world = make_world()
    bytes_of = sizes or (100,) * len(lines)
    keys = [
        key
        for line, size in zip(lines, bytes_of, strict=True)
        for key in put_append(world, schema=line, size=size)
    ]
    return world, keys


def state(world: World) -> Snapshot:
    return read_snapshot(world.store, world.table.paths, tolerant=True)


def target(kind: str = "INTEGER", **given: Any) -> Target:
    return Target(
        **{"column": "v", "kept": kind, "rename": None, "where_types": frozenset(), **given}
    )


def asked(
    world: World, *, where: tuple[str, ...] = (), all_parts: bool = False, **fix: Any
) -> Target:
    fixes = (ColumnFix(column="v", **fix),)
    (found,) = targets_of(state(world), world.settings, fixes, where, all_parts=all_parts)
    return found


def plan(world: World, wanted: Target, holds: dict[str, dict[str, str]]) -> SchemaFixPlan:
    """A plan where the footers of parts say what ``holds`` says."""
    snapshot = state(world)
    about = aim(snapshot, [wanted], all_parts=False)
    footers = [FooterFacts(key=m.p, bytes=m.b, rows=10, columns=holds[m.p]) for m in about.suspects]
    return plan_schema_fix(snapshot, about, footers)


# --- who says what -------------------------------------------------------------------------------


def test_a_dispute_tells_parts_rows_bytes_and_writers_of_each_type() -> None:
    world, _ = table(A, A, B, sizes=(100, 200, 50))
    (said,) = disputes(state(world))
    assert [(s.type, s.parts, s.rows, s.bytes) for s in said] == [
        ("INTEGER", 2, 20, 300),
        ("VARCHAR", 1, 10, 50),
    ]
    assert [source.writer for s in said for source in s.sources] == ["host"] * 3
    assert said[1].sources[0].t == max(item.name.t for item in state(world).listing.values())


def test_dead_parts_and_folded_log_files_stand_behind_nothing() -> None:
    world, keys = table(A, A)
    do_merge(world, keys)
    put_append(world, schema=B)
    said = {statement.type: statement for statement in statements(state(world), "v")}
    writers = [source.writer for source in said["INTEGER"].sources]
    assert writers == ["transaction 1 (merge)"]
    assert (said["INTEGER"].parts, said["VARCHAR"].parts) == (1, 1)


# --- what is wanted ------------------------------------------------------------------------------


def test_the_type_of_most_bytes_keeps_the_name_and_of_equals_the_first() -> None:
    assert asked(table(A, B, B, sizes=(150, 50, 50))[0], rename="w").kept == "INTEGER"
    assert asked(table(A, B, B, sizes=(50, 50, 50))[0], rename="w").kept == "VARCHAR"
    assert asked(table(A, B)[0], rename="w").kept == "INTEGER"
    wanted = asked(table(A, B, C, sizes=(10, 50, 20))[0], where=("VARCHAR",), rename="w")
    assert (wanted.kept, set(wanted.where_types)) == ("DOUBLE", {"VARCHAR"})
    with pytest.raises(UsageError, match="no type that would keep the name"):
        asked(table(A, B)[0], where=("VARCHAR", "int"), rename="w")


@pytest.mark.parametrize(
    ("wanted", "name", "kind", "wrong"),
    [
        (target(), "v", "INTEGER", False),
        (target(), "v", "VARCHAR", True),
        (target(), "V", "INTEGER", True),
        (target(), "w", "VARCHAR", False),
        (target(where_types=frozenset({"DOUBLE"})), "v", "VARCHAR", False),
        (target(where_types=frozenset({"DOUBLE"})), "v", "DOUBLE", True),
        (target(rename="w"), "V", "INTEGER", False),
        (target(rename="w"), "v", "VARCHAR", True),
    ],
)
def test_what_counts_as_wrong(wanted: Target, name: str, kind: str, wrong: bool) -> None:
    assert wanted.wrong(name, kind) is wrong


# --- what is done --------------------------------------------------------------------------------


def test_only_parts_of_wrong_log_files_are_suspected_and_footers_decide() -> None:
    world, (_, wrong, right, without) = table(A, B, B, B)
    holds = {wrong: {"k": "BIGINT", "v": "VARCHAR"}, right: A, without: {"k": "BIGINT"}}
    made = plan(world, target(), holds)
    assert {m.p for m in made.aim.suspects} == holds.keys()
    (fix,) = made.rewrites
    assert (fix.marker.p, fix.partition) == (wrong, "d=1")
    assert fix.columns == (("k", "BIGINT"), ("v", "INTEGER"))
    assert fix.conversions == (Conversion(column="v", name="v"),)
    assert made.found == {"v": {"VARCHAR": 1, "INTEGER": 1}}
    assert (made.bytes_in, made.requests) == (100, 3 + 1 + 1 + 10)


def test_all_parts_are_suspected_when_asked() -> None:
    world, keys = table(A, A, A)
    assert aim(state(world), [target()], all_parts=False).suspects == ()
    found = aim(state(world), [target()], all_parts=True).suspects
    assert [m.p for m in found] == sorted(keys)


def test_a_table_in_order_leaves_nothing_to_do() -> None:
    world, _ = table(A, A)
    made = plan(world, target(), {})
    assert (made.nothing_to_do, made.requests) == (True, 0)


def test_a_new_name_gets_one_type_and_none_that_the_part_has() -> None:
    world, (_, one, other) = table(A, B, B)
    wanted = target(rename="w")
    good = plan(world, wanted, {one: B, other: {"k": "BIGINT"}})
    assert good.renamed == {"w": "VARCHAR"}
    with pytest.raises(UsageError, match="would be DOUBLE and VARCHAR"):
        plan(world, wanted, {one: B, other: C})
    with pytest.raises(UsageError, match="has a column 'w' already"):
        plan(world, wanted, {one: {**B, "w": "DATE"}, other: A})
    more, (_, theirs, _) = table(A, B, {"w": "DATE"})
    with pytest.raises(UsageError, match="has a column 'w' of type DATE"):
        plan(more, wanted, {theirs: B})


def test_what_does_not_read_is_told_and_not_guessed() -> None:
    world, (_, broken) = table(A, B)
    about = aim(state(world), [target()], all_parts=False)
    facts = FooterFacts(key=broken, bytes=100, error="is cut", next_step="get it anew")
    made = plan_schema_fix(state(world), about, [facts])
    assert [u.key for u in made.unreadable] == [broken]
    assert made.rewrites == ()
    assert not made.nothing_to_do


# --- what the log will say -----------------------------------------------------------------------


def test_the_line_states_everything_that_stands_and_the_repair() -> None:
    world, _ = table(A, {**B, "only": "DATE"}, {"other": "TIME"})
    snapshot = state(world)
    files = wrong_files(snapshot, [target()])
    assert len(files) == 1
    line = line_of(snapshot, [target()], {"w": "VARCHAR"}, files)
    assert line == {
        "k": "BIGINT", "only": "DATE", "other": "TIME", "v": "INTEGER", "w": "VARCHAR",
    }  # fmt: skip


def test_columns_that_stay_in_dispute_are_left_to_their_own_log_files() -> None:
    world, _ = table({**A, "x": "DATE"}, {**B, "x": "TIME"})
    snapshot = state(world)
    line = line_of(snapshot, [target()], {}, wrong_files(snapshot, [target()]))
    assert line == {"k": "BIGINT", "v": "INTEGER", "x": "TIME"}


def test_a_wrong_log_file_that_came_later_is_planned_anew() -> None:
    world, _ = table(A, B)
    planned = wrong_files(state(world), [target()])
    assert repaired(state(world), [target()], {}, planned).folds == planned
    put_append(world, schema=A)
    assert repaired(state(world), [target()], {}, planned).folds == planned
    put_append(world, schema=B)
    with pytest.raises(CommitConflictError, match="came while the repair ran"):
        repaired(state(world), [target()], {}, planned)


KINDS = st.sampled_from(["INTEGER", "VARCHAR", "DOUBLE"])
LINES = st.lists(
    st.dictionaries(st.sampled_from(["k", "v", "V"]), KINDS, max_size=3), min_size=1, max_size=6
)


@given(lines=LINES, kept=KINDS)
def test_afterwards_no_line_contradicts_another_in_the_column_and_none_is_lost(
    lines: list[dict[str, str]], kept: str
) -> None:
    world, _ = table(*lines)
    snapshot, wanted = state(world), target(kept)
    files = wrong_files(snapshot, [wanted])
    try:
        line = line_of(snapshot, [wanted], {}, files)
    except UsageError:
        # Log files that are folded disagree on k as well: it has to be repaired with v.
        schemas = [(key, snapshot.contents[key].schema) for key in files]
        folded = [(key, {"k": said["k"]}) for key, said in schemas if "k" in said]
        with pytest.raises(SchemaConflictError):
            union(folded)
        return
    stay = [(k, c.schema) for k, c in snapshot.contents.items() if k not in files]
    about_v = [
        {name: kind for name, kind in said.items() if name != "k"}
        for said in [line, *(said for _, said in stay)]
    ]
    assert union((str(n), said) for n, said in enumerate(about_v)) == {"v": kept}
    named = {name.lower() for key in files for name in snapshot.contents[key].schema}
    assert named <= {name.lower() for name in line}
