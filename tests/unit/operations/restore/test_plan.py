"""The plan of a restore: which parts are copied, and what stands in their markers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.log.records import Delete, Marker, with_unknown
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.restore.plan import Copied, RestorePlan, plan_restore
from firnline.operations.restore.since import read_since
from tests.support.log_tables import put_append, snapshot
from tests.support.world import World, make_world


def change(world: World, op: str, **what: object) -> int:
    """Commit a change of one kind; its number."""
    world.clock.advance(10)
    made = Change(op, **{"replaces": (), "adds": (), "counts": Counts(), **what})  # type: ignore[arg-type]  # passed on
    return commit(world.table, take_base(world.table), made, RunIdentity()).header.seq


def drop(world: World, *keys: str) -> int:
    partitions = tuple(sorted({world.table.paths.parse_part(key).partition for key in keys}))
    return change(world, "drop", replaces=keys, partitions=partitions)


def free_of(world: World, name: str, keys: Sequence[str]) -> int:
    """A delete of which the parts' markers say that it hides nothing there."""
    delete = Delete(name, 0, 0, msgspec.Raw(b'{"op":"is_null","column":"v"}'), ("*",))
    return change(world, "delete", deletes=(delete,), clean=tuple(keys))


def plan(world: World, to: int, *globs: str, ordered: bool = False) -> RestorePlan:
    base = take_base(world.table)
    since = read_since(world.table, to, base.seq)
    return plan_restore(base.snapshot, since, globs, ordered=ordered)


def test_the_marker_of_a_copy_says_all_that_the_one_of_the_part_did() -> None:
    world = make_world()
    plain = Marker(p="t/_data/d=1/a.parquet", b=1, t=5, tmb=9, n=3, q=2, o=(1, 4), d=("one",))
    later = {"later": msgspec.Raw(b"1")}
    for old in (plain, with_unknown(plain, later)):
        new = Copied(old, "d=1", ("one", "two")).marker(snapshot(world), "t/_data/d=1/b.parquet")
        assert (new.p, new.tmb, new.d) == ("t/_data/d=1/b.parquet", None, ("one", "two"))
        assert (new.b, new.n, new.q, new.order()) == (1, 3, 2, (1, 4))
        assert set(new.unknown()) == set(old.unknown())


def test_the_copy_of_a_part_that_says_no_order_was_inserted_when_the_part_was() -> None:
    """Else it would win over newer rows of its keys: a transaction dates what it brings by now."""
    old = Marker(p="t/_data/d=1/a.parquet", b=1, t=5, tmb=9, n=3)
    new = Copied(old, "d=1", ()).marker(snapshot(make_world()), "t/_data/d=1/b.parquet")
    assert msgspec.structs.replace(new, t=20).order() == old.order() == (5, 5)


def test_deletes_that_a_part_was_free_of_stay_with_its_copy() -> None:
    world = make_world()
    first, second = put_append(world, "d=1", "d=1")
    to = free_of(world, "one", [first, second])
    drop(world, first)
    for ordered, copied in ((False, {first}), (True, {first, second})):
        made = plan(world, to, ordered=ordered)
        assert {c.source.p for c in made.copies} == copied, "names alone tell which came last"
        assert {c.d for c in made.copies} == {("one",)}
        assert {m.p for m in made.removes} == copied - {first}


def test_it_says_which_transactions_it_undoes() -> None:
    world = make_world()
    one, two = put_append(world, "d=1", "d=2")
    first = drop(world, one)
    second = drop(world, two)
    change(world, "cleanup", partitions=("d=1",))
    assert plan(world, 0, "d=1").undone == (first,)
    assert plan(world, 0).undone == (first, second)
