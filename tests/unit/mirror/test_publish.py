"""Publishing: what is refused, what waits, and what rivals and crashes leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import (
    MirrorDamagedError,
    MirrorRefusedError,
    NotMirroredError,
    OutcomeUnknownError,
    StoreError,
    UsageError,
)
from firnline.log.records import Delete
from firnline.log.schema_changes import Evolved, record
from firnline.log.txn_file import Counts
from firnline.mirror.delta import head
from firnline.mirror.delta.publish import publish
from firnline.mirror.published import Published
from firnline.operations.mirror.check import MirrorDiffersError, refuse_differences, run_check
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import to_json
from firnline.store.base import Deleted
from tests.support.cleanups import GRACE
from tests.support.log_tables import SCHEMA, do_merge, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world, states, versions
from tests.support.world import Asleep, Crashed, Fault, FaultyStore, MemoryStore, World, make_world


def live(world: World) -> set[str]:
    return set(snapshot(world).live)


def delete(world: World, where: str = "v = 5") -> None:
    """A record that hides rows, and no part that is rewritten."""
    world.clock.advance(10)
    tree = msgspec.Raw(to_json(parse_sql(where, SCHEMA)))
    found = Delete(id=world.ids.uuid7(world.clock.now), seq=0, t=0, where=tree)
    change = Change(op="delete", replaces=(), adds=(), counts=Counts(), deletes=(found,))
    commit(world.table, take_base(world.table), change, RUN)


def evolve(world: World, **what: Any) -> None:
    world.clock.advance(10)
    found = record(world.ids.uuid7(world.clock.now), Evolved(**what))
    change = Change(op="evolve", replaces=(), adds=(), counts=Counts(), deletes=(found,))
    commit(world.table, take_base(world.table), change, RUN)


@pytest.mark.long
def test_a_table_without_rows_of_a_log_has_no_mirror() -> None:
    world = make_world(mirror=["delta"])
    with pytest.raises(UsageError, match="has not been written to"):
        publish(world.table)


def test_a_table_that_does_not_say_so_gets_no_mirror_and_then_says_so() -> None:
    world = make_world()
    do_merge(world, put_append(world))  # from now on the table has properties of its own
    with pytest.raises(NotMirroredError, match="does not state mirror"):
        publish(world.table)
    wanted = replace(world.table, settings=make_world(mirror=["delta"]).settings)
    with pytest.raises(NotMirroredError):
        run_mirror(Work(wanted, RUN), MirrorOptions(dry_run=True))
    done = run_mirror(Work(wanted, RUN), MirrorOptions())
    assert done.delta is not None
    assert (done.applied, done.delta.version) == (2, 0)
    assert states(world) == [live(world)]
    # The table says so itself now, whatever the settings of another process are.
    assert publish(world.table).version == 0


def test_a_column_that_delta_cannot_hold_is_refused_and_the_mirror_stays() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world, schema={**SCHEMA, "u": "UBIGINT"})
    with pytest.raises(MirrorRefusedError, match="column 'u' of table t is UBIGINT"):
        publish(world.table)
    assert len(versions(world)) == 1


def test_while_a_delete_may_hide_rows_the_mirror_waits_and_says_since_when() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    delete(world)
    since = world.clock.now
    put_append(world, q=2)
    done = publish(world.table)
    with pytest.raises(MirrorDiffersError, match="deletes may hide rows of 1 of its parts"):
        refuse_differences(run_check(world.table))
    assert (done.written, done.version, done.shown) == (False, 0, 1)
    assert done.hold is not None
    assert (done.hold.parts, done.hold.first, done.hold.since_ms) == (1, keys[0], since)
    do_merge(world, keys)  # its output has the number of its base, which is the delete's
    done = publish(world.table)
    assert (done.version, done.hold) == (1, None)
    assert states(world)[-1] == live(world)


def test_an_append_that_lands_late_under_a_delete_holds_the_mirror() -> None:
    world = mirrored_world()
    delete(world)
    delete(world, "v = 6")
    put_append(world)
    assert publish(world.table).version == 0
    put_append(world, q=0)
    done = publish(world.table)
    assert done.hold is not None
    assert done.hold.parts == 1


CHANGES_OF_COLUMNS = [
    ("INTEGER", {"rename": {"v": "w"}}, True),
    ("INTEGER", {"drop": ("v",)}, True),
    ("INTEGER", {"widen": {"v": "BIGINT"}}, False),
    ("FLOAT", {"widen": {"v": "DOUBLE"}}, False),
    ("DATE", {"widen": {"v": "TIMESTAMP"}}, True),
    ("DECIMAL(5,2)", {"widen": {"v": "DECIMAL(9,4)"}}, True),
]
"""Type of a column, a lazy change of it, and if a mirror waits for that in any format."""


@pytest.mark.parametrize(("kind", "what", "waits"), CHANGES_OF_COLUMNS)
def test_a_change_of_columns_that_readers_do_not_see_in_parts_holds_the_mirror(
    kind: str, what: dict[str, Any], waits: bool
) -> None:
    world = mirrored_world()
    put_append(world, schema={**SCHEMA, "v": kind})
    publish(world.table)
    evolve(world, **what)
    done = publish(world.table)
    assert (done.hold is not None) == waits
    assert done.columns_changed != waits
    assert len(versions(world)) == (1 if waits else 2)


def test_columns_are_stated_once_and_again_when_they_change() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)
    publish(world.table)
    put_append(world, schema={**SCHEMA, "new": "DOUBLE"})
    publish(world.table)
    stated = [[a["metaData"] for a in actions if "metaData" in a] for actions in versions(world)]
    assert [len(found) for found in stated] == [1, 0, 1]
    assert len({found["id"] for every in stated for found in every}) == 1
    assert '"new"' in stated[2][0]["schemaString"]


def test_a_feature_that_a_new_column_needs_is_added_to_the_protocol() -> None:
    world = mirrored_world()
    put_append(world, schema={"v": "INTEGER"})
    publish(world.table)
    put_append(world, schema={"v": "INTEGER", "ts": "TIMESTAMP"})
    publish(world.table)
    put_append(world)
    publish(world.table)
    found = [[a["protocol"] for a in actions if "protocol" in a] for actions in versions(world)]
    assert found[0] == [
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "firnline"]}
    ]
    assert found[1] == [
        {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz"],
            "writerFeatures": ["appendOnly", "firnline", "timestampNtz"],
        }
    ]
    assert found[2] == []


def test_a_dry_run_writes_nothing() -> None:
    world = mirrored_world()
    put_append(world)
    before = dict(world.store.objects)
    done = publish(world.table, dry_run=True)
    assert (done.written, done.version, done.adds) == (True, None, 1)
    assert world.store.objects == before


@dataclass
class Racing(FaultyStore):
    """Publishes the same version in the moment before a put."""

    rival: Any = None
    times: int = 1
    wrote: list[int] = field(default_factory=list)

    def put_new(self, key: str, data: bytes) -> None:
        if "/_delta_log/" in key and self.times:
            self.times -= 1
            self.rival()
        super().put_new(key, data)


def test_a_run_that_loses_the_race_starts_again_from_the_head() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)

    def rival() -> None:
        put_append(world)
        publish(world.table)

    done = publish(replace(world.table, store=Racing(world.store, rival=rival)))
    # The rival's version shows the newest state already.
    assert (done.written, done.version, done.lost_races) == (False, 1, 1)
    assert states(world)[-1] == live(world)


def test_a_machine_that_was_suspended_reads_the_table_again() -> None:
    world = mirrored_world()
    put_append(world)

    class Suspended(FaultyStore):
        def list(self, prefix: str, start_after: str | None = None) -> Any:
            yield from super().list(prefix, start_after)
            if prefix.endswith("/_txn/") and not slept:
                slept.append(world.clock.now)
                world.clock.advance(GRACE)

    slept: list[int] = []
    done = publish(replace(world.table, store=Suspended(world.store)))
    assert (done.written, done.lost_races) == (True, 1)
    assert versions(world)[0][0]["commitInfo"]["timestamp"] > slept[0]


@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_run_that_dies_anywhere_leaves_a_mirror_that_the_next_one_continues(
    kind: str, at: int
) -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)
    store = FaultyStore(world.store, Fault(at, kind))
    try:
        publish(replace(world.table, store=store))
    except Crashed:
        assert len(versions(world)) <= 2
    assert run_check_or_publish(world) == live(world)


def run_check_or_publish(world: World) -> set[str]:
    publish(world.table)
    assert run_check(world.table).same
    return states(world)[-1]


def test_an_answer_that_was_lost_is_read_back() -> None:
    world = mirrored_world()
    put_append(world)

    class Losing(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            raise OutcomeUnknownError(f"no answer for {key}", next_step="read it back")

    done = publish(replace(world.table, store=Losing(world.store)))
    assert (done.written, done.lost_races) == (True, 0)
    assert len(versions(world)) == 1


def test_a_version_that_somebody_else_wrote_is_an_error() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    key = world.table.paths.delta_version(1)
    for data in (b'{"commitInfo":{"operation":"WRITE"}}\n', b"nonsense\n", b""):
        world.store.objects[key] = (data, world.clock.now)
        with pytest.raises(MirrorDamagedError, match="delete the folder _delta_log"):
            publish(world.table)


def test_a_log_of_many_versions_is_listed_from_its_checkpoint_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head, "_PAGE", 4)
    world = mirrored_world()
    for number in range(9):
        put_append(world)
        assert publish(world.table).version == number
    paths, store = world.table.paths, world.store
    assert len(head.list_versions(store, paths).versions) == 9
    store.objects[paths.delta_last_checkpoint] = (b'{"version":6}', 1)
    listing = head.list_versions(store, paths)
    assert [version.number for version in listing.versions] == [6, 7, 8]
    assert len(head.list_versions(store, paths, whole=True).versions) == 9
    store.objects[paths.delta_last_checkpoint] = (b"nonsense", 1)
    assert len(head.list_versions(store, paths).versions) == 9


def test_the_requests_of_a_version_are_one_list_one_get_and_one_put() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)

    def requests(act: Any) -> dict[str, int]:
        before = world.store.counters.as_dict()
        act()
        after = world.store.counters.as_dict()
        return {kind: after[kind] - before[kind] for kind in ("get", "put", "list", "delete")}

    from firnline.commit.base import read_base

    state = requests(lambda: read_base(world.table))
    whole = requests(lambda: publish(world.table))
    assert {kind: whole[kind] - state[kind] for kind in whole} == {
        "get": 1,
        "put": 1,
        "list": 1,
        "delete": 0,
    }


def test_a_check_names_what_differs() -> None:
    world = mirrored_world()
    keys = put_append(world)
    with pytest.raises(MirrorDiffersError, match="it has no version yet"):
        refuse_differences(run_check(world.table))
    publish(world.table)
    refuse_differences(run_check(world.table))
    do_merge(world, keys)
    put_append(world, schema={**SCHEMA, "new": "DOUBLE"})
    found = run_check(world.table)
    assert (found.missing, found.dead_keys, found.columns_differ) == (2, tuple(keys), True)
    with pytest.raises(MirrorDiffersError, match="2 live parts are missing, 1 part is shown"):
        refuse_differences(found)


# --- a process that sleeps right before or after its put ------------------------------------------


def publish_asleep(
    world: World, meanwhile: Callable[[], None], *, after: bool = False
) -> Published:
    """Publish by a process that stops before, or after, it puts its first version."""
    store = Asleep(world.store, at="put t/_delta_log/", meanwhile=meanwhile, after=after)
    done = publish(replace(world.table, store=store))
    assert store.slept == 1
    return done


def numbers(world: World) -> list[int]:
    return [
        version.number for version in head.list_versions(world.store, world.table.paths).versions
    ]


def test_a_state_of_long_ago_that_was_put_all_the_same_is_followed_by_the_newest_at_once() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)

    def sleeps() -> None:
        world.clock.advance(2 * GRACE)
        put_append(world)

    done = publish_asleep(world, sleeps)
    assert (done.version, done.written, done.lost_races) == (2, True, 1)
    assert states(world)[-1] == live(world)
    assert numbers(world) == [0, 1, 2]


def test_a_version_stays_that_others_followed_while_its_writer_slept_after_the_put() -> None:
    world = mirrored_world()
    for _ in range(2):
        put_append(world)
        publish(world.table)
    put_append(world)

    def sleeps() -> None:
        put_append(world)
        publish(world.table)
        world.clock.advance(2 * GRACE)

    publish_asleep(world, sleeps, after=True)
    assert numbers(world) == [0, 1, 2, 3]
    assert states(world)[-1] == live(world)


@pytest.mark.parametrize(
    ("versions_there", "checkpoints", "late", "left"),
    [
        ([2, 4], [1], 3, [2, 3, 4]),
        ([4], [2], 3, [3, 4]),
        ([4, 5], [4], 3, [4, 5]),
        ([0, 1, 11], [], 12, [0, 1, 11]),
        ([], [], 5, []),
        ([], [], 0, [0]),
    ],
    ids=[
        "within the mirror",
        "after a checkpoint",
        "right before a checkpoint",
        "behind a gap, beside another late one",
        "of a mirror that was deleted",
        "the first",
    ],
)
def test_a_late_version_stays_only_where_all_between_a_checkpoint_and_the_newest_are_there(
    versions_there: list[int], checkpoints: list[int], late: int, left: list[int]
) -> None:
    world = mirrored_world()
    paths = world.table.paths
    for number in (*versions_there, late):
        world.store.put_new(paths.delta_version(number), b"{}")
    for number in checkpoints:
        key = f"{paths.delta_dir}{number:020d}.checkpoint.parquet"
        world.store.put_new(key, b"PAR1")
    head.withdraw_stray(world.store, paths, late)
    assert numbers(world) == left


def test_a_version_whose_number_was_used_and_deleted_meanwhile_goes_again() -> None:
    """It lies behind a checkpoint, and would state bounds that an erase has taken away."""
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)

    def sleeps() -> None:
        for _ in range(3):
            put_append(world)
            publish(world.table)
        world.clock.advance(2 * GRACE)
        for number in range(3):
            del world.store.objects[world.table.paths.delta_version(number)]

    publish_asleep(world, sleeps)
    assert numbers(world) == [3]


def test_a_version_of_a_mirror_that_was_begun_anew_leaves_no_gap() -> None:
    world = mirrored_world()
    for _ in range(3):
        put_append(world)
        publish(world.table)
    put_append(world)

    def sleeps() -> None:
        world.clock.advance(2 * GRACE)
        for key in [k for k in world.store.objects if k.startswith("t/_delta_log/")]:
            del world.store.objects[key]
        publish(world.table)

    publish_asleep(world, sleeps)
    assert numbers(world) == [0]
    assert states(world)[-1] == live(world)


def test_a_stray_version_that_cannot_be_deleted_is_an_error_that_names_it() -> None:
    world = mirrored_world()
    store = Refusing(world.clock)
    for number in (1, 5):
        store.put_new(world.table.paths.delta_version(number), b"{}")
    with pytest.raises(StoreError, match=r"0005\.json, which was written too late, could not be"):
        head.withdraw_stray(store, world.table.paths, 5)


class Refusing(MemoryStore):
    """Deletes nothing."""

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        for key in keys:
            yield Deleted(key, StoreError("denied", next_step="ask"))
