"""Deletion vectors of versions: what is made, kept, taken away, and left by crashes and rivals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from firnline.commit.base import Base, take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.log.records import Delete
from firnline.log.txn_file import Counts
from firnline.mirror.delta import publish as publishing
from firnline.mirror.delta.actions import DeletionVector
from firnline.mirror.delta.checkpoint import keep_short
from firnline.mirror.delta.expiry import MARGIN_MS, expire_vectors
from firnline.mirror.delta.head import list_versions
from firnline.mirror.delta.publish import publish
from firnline.mirror.delta.vectors import Vector, rows_of
from firnline.mirror.hold import Hiding
from firnline.mirror.published import Published
from firnline.operations.mirror import run as operation
from firnline.operations.mirror.check import run_check
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import to_json
from firnline.read.hidden import Rows
from tests.support.cleanups import GRACE
from tests.support.log_tables import SCHEMA, do_merge, merge_change, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world, versions
from tests.support.world import Crashed, Fault, FaultyStore, World

VECTORS = [{"delta": {"deletes": "vectors"}}]


@dataclass
class Looking:
    """A part has rows 0 to 9, and a delete of ``v = n`` hides row n."""

    looked: list[str] = field(default_factory=list)

    def __call__(
        self, base: Base, hiding: Sequence[Hiding]
    ) -> Iterator[tuple[str, Rows, int | None]]:
        for each in hiding:
            self.looked.append(each.marker.p)
            rows = sorted(msgspec.json.decode(d.where)["value"] for d in each.deletes)
            count = 10 if each.marker.n is None else None
            yield each.marker.p, np.array([n for n in rows if n < 10], np.int64), count


@dataclass
class Mirror:
    """A world with vectors, and what a reader of the mirror's own objects sees."""

    world: World
    look: Looking = field(default_factory=Looking)

    def publish(self, **other: Any) -> Published:
        return publish(replace(self.world.table, **other), look=self.look)

    def delete(self, row: int) -> None:
        self.world.clock.advance(10)
        tree = msgspec.Raw(to_json(parse_sql(f"v = {row}", SCHEMA)))
        found = Delete(id=self.world.ids.uuid7(self.world.clock.now), seq=0, t=0, where=tree)
        change = Change(op="delete", replaces=(), adds=(), counts=Counts(), deletes=(found,))
        commit(self.world.table, take_base(self.world.table), change, RUN)

    def hidden(self) -> dict[str, list[int]]:
        """Hidden rows by key of each part that the newest version shows."""
        table, shown = self.world.table, dict[str, DeletionVector | None]()
        for actions in versions(self.world):
            for action in actions:
                for kind in ("remove", "add"):
                    file = action.get(kind)
                    if file is None:
                        continue
                    told = file.get("deletionVector")
                    vector = None if told is None else msgspec.convert(told, DeletionVector)
                    if kind == "add":
                        assert file["path"] not in shown
                        shown[file["path"]] = vector
                    else:
                        assert shown.pop(file["path"]) == vector, "a file goes with its vector"
        return {
            table.paths.delta_key(path): []
            if vector is None
            else rows_of(table.store, table.paths, Vector.of_action(vector)).tolist()
            for path, vector in shown.items()
        }

    def vector_objects(self) -> set[str]:
        folder = self.world.table.paths.vectors_dir
        return {key for key in self.world.store.objects if key.startswith(folder)}


@pytest.fixture
def mirror() -> Mirror:
    return Mirror(mirrored_world(mirror=VECTORS))


@pytest.mark.long
def test_a_part_is_looked_through_once_for_the_same_deletes(mirror: Mirror) -> None:
    (old,) = put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    done = mirror.publish()
    assert (done.vectors, done.vectors_made, done.adds, done.removes) == (1, 1, 0, 0)
    assert mirror.hidden() == {old: [3]}
    (new,) = put_append(mirror.world, q=2)
    done = mirror.publish()
    assert (done.vectors, done.vectors_made) == (1, 0)
    assert mirror.hidden() == {old: [3], new: []}
    mirror.delete(5)
    assert mirror.publish().vectors_made == 2
    assert mirror.hidden() == {old: [3, 5], new: [5]}
    assert mirror.look.looked == [old, *sorted([old, new])]
    assert run_check(mirror.world.table).same


def test_only_a_version_that_hides_rows_asks_readers_for_vectors(mirror: Mirror) -> None:
    put_append(mirror.world)
    mirror.publish()
    mirror.delete(77)  # no part has such a row
    done = mirror.publish()
    assert (done.vectors, done.vectors_made) == (0, 1)
    protocols = [action for found in versions(mirror.world) for action in found]
    protocols = [action["protocol"] for action in protocols if "protocol" in action]
    assert [found["readerFeatures"] for found in protocols] == [["timestampNtz"]]
    mirror.delete(7)
    mirror.publish()
    last = versions(mirror.world)[-1]
    (found,) = [action["protocol"] for action in last if "protocol" in action]
    features = ["deletionVectors", "timestampNtz"]
    assert (found["minReaderVersion"], found["readerFeatures"]) == (3, features)
    assert {"appendOnly", "firnline", *features} == set(found["writerFeatures"])
    # A version of firnline that knows no vectors would remove files without theirs.
    assert last[0]["commitInfo"]["firnline"]["v"] == 2


def test_bounds_of_a_part_with_hidden_rows_are_not_tight_and_its_rows_are_stated(
    mirror: Mirror,
) -> None:
    put_append(mirror.world, rows=None)  # another client's marker
    mirror.publish()
    mirror.delete(1)
    mirror.publish()
    (add,) = [action["add"] for action in versions(mirror.world)[-1] if "add" in action]
    assert msgspec.json.decode(add["stats"]) == {"numRecords": 10, "tightBounds": False}


@pytest.mark.parametrize(("rows", "changes"), [(9, False), (10, True)])
def test_a_merge_that_carries_the_deletes_out_changes_no_data(
    mirror: Mirror, rows: int, changes: bool
) -> None:
    keys = put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    base = take_base(mirror.world.table)
    change = merge_change(mirror.world, keys, base)
    adds = tuple(msgspec.structs.replace(marker, n=rows) for marker in change.adds)
    commit(mirror.world.table, base, replace(change, adds=adds), RUN)
    assert mirror.publish().vectors == 0
    assert list(mirror.hidden().values()) == [[]]
    files = [action.get("add") or action.get("remove") for action in versions(mirror.world)[-1]]
    assert [file["dataChange"] for file in files if file] == [changes, changes]
    assert run_check(mirror.world.table).same


def test_a_mirror_that_waits_again_takes_its_vectors_away_after_the_merge(mirror: Mirror) -> None:
    keys = put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    waiting = mirror.world.settings.model_copy(update={"mirror": mirrored_world().settings.mirror})
    assert mirror.publish(settings=waiting).hold is not None
    assert mirror.hidden() == {keys[0]: [3]}
    do_merge(mirror.world, keys)
    assert mirror.publish(settings=waiting).written
    assert list(mirror.hidden().values()) == [[]]


def test_without_its_index_the_mirror_itself_says_which_vectors_it_has(mirror: Mirror) -> None:
    (key,) = put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    for name in [name for name in mirror.vector_objects() if name.endswith(".json")]:
        del mirror.world.store.objects[name]
    assert not run_check(mirror.world.table).same
    mirror.delete(4)
    assert mirror.publish().written
    assert mirror.hidden() == {key: [3, 4]}
    assert run_check(mirror.world.table).same


@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 11))
def test_a_run_that_dies_anywhere_leaves_a_mirror_that_the_next_one_continues(
    mirror: Mirror, kind: str, at: int
) -> None:
    first, second = put_append(mirror.world), put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    do_merge(mirror.world, first)
    mirror.delete(4)
    store = FaultyStore(mirror.world.store, Fault(at, kind))
    try:
        mirror.publish(store=store)
    except Crashed:
        assert len(versions(mirror.world)) <= 3
    mirror.publish()
    hidden = mirror.hidden()
    assert hidden.keys() == set(snapshot(mirror.world).live)
    assert hidden[second[0]] == [3, 4]
    assert run_check(mirror.world.table).same


def test_so_many_vectors_that_readers_hang_are_a_warning(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "MOST_VECTORS", 1)
    monkeypatch.setattr(publishing, "in_parts", mirror.look)
    warned = []
    for row in range(2):
        put_append(mirror.world, q=row)
        mirror.delete(row)
        warned.append(run_mirror(Work(mirror.world.table, RUN), MirrorOptions()).warnings)
    assert warned[0] == ()
    assert "2 parts have deletion vectors, and with more than 1 queries of" in warned[1][0]


def test_a_lost_race_looks_through_no_part_again(mirror: Mirror) -> None:
    (key,) = put_append(mirror.world)
    mirror.publish()
    mirror.delete(3)
    rival = Mirror(mirror.world)

    class Racing(FaultyStore):
        def put_new(self, name: str, data: bytes) -> None:
            if "_delta_log" in name and not rival.look.looked:
                put_append(mirror.world)
                rival.publish()
            super().put_new(name, data)

    done = mirror.publish(store=Racing(mirror.world.store))
    assert (done.lost_races, done.written) == (1, False)
    assert mirror.look.looked == [key]
    assert mirror.hidden()[key] == [3]


def test_vectors_expire_behind_a_version_that_is_as_old_as_the_grace(mirror: Mirror) -> None:
    world, paths = mirror.world, mirror.world.table.paths
    first, second = put_append(world), put_append(world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    old = mirror.vector_objects()
    assert len(old) == 2
    do_merge(world, first)
    mirror.publish()  # the vector of the second part stays that of the first file
    world.clock.advance(MARGIN_MS + 1)
    mirror.delete(4)
    mirror.publish()
    last = list_versions(world.store, paths, whole=True).versions[-1]
    before = mirror.hidden()
    assert expire_vectors(world.store, paths, None) == (0, 0)
    assert expire_vectors(world.store, paths, last) == (3, 0)
    assert mirror.vector_objects().isdisjoint(old)
    assert mirror.hidden() == before
    assert before[second[0]] == [3, 4]
    assert keep_short(world.table, 0, GRACE).expired == 0


def test_a_file_that_the_index_of_a_version_names_stays_whatever_its_age(mirror: Mirror) -> None:
    world, paths = mirror.world, mirror.world.table.paths
    (old,) = put_append(world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    (file,) = [key for key in mirror.vector_objects() if key.endswith(".bin")]
    world.clock.advance(MARGIN_MS + 1)
    (late,) = put_append(world, q=1)
    assert mirror.publish().vectors_made == 1
    last = list_versions(world.store, paths, whole=True).versions[-1]
    # Of the two objects of the first version only its index is not needed any more.
    assert expire_vectors(world.store, paths, last) == (1, 0)
    assert file in mirror.vector_objects()
    assert mirror.hidden() == {old: [3], late: [3]}


def kinds(world: World) -> set[str]:
    report = run_verify(Work(world.table), VerifyOptions())
    return {finding.kind for finding in report.findings if finding.kind.startswith("mirror")}


def test_verify_finds_vectors_that_are_gone_or_hide_other_rows(mirror: Mirror) -> None:
    world = mirror.world
    put_append(world)
    mirror.publish()
    mirror.delete(3)
    mirror.publish()
    assert kinds(world) == set()
    objects = dict(world.store.objects)
    for name in mirror.vector_objects():
        gone = "mirror-vector-missing" if name.endswith(".bin") else "mirror-hidden-rows"
        del world.store.objects[name]
        assert kinds(world) == {gone}
        world.store.objects.update(objects)
    key = world.table.paths.delta_version(1)
    data, at = world.store.objects[key]
    world.store.objects[key] = (data.replace(b'"cardinality":1', b'"cardinality":2'), at)
    assert kinds(world) == {"mirror-hidden-rows"}


def test_the_requests_of_a_version_with_vectors(mirror: Mirror) -> None:
    world = mirror.world
    put_append(world)
    mirror.publish()

    def requests() -> dict[str, int]:
        from firnline.commit.base import read_base

        counts = []
        for act in (lambda: read_base(world.table), mirror.publish):
            before = world.store.counters.as_dict()
            act()
            after = world.store.counters.as_dict()
            counts.append({kind: after[kind] - before[kind] for kind in ("get", "put", "list")})
        return {kind: counts[1][kind] - counts[0][kind] for kind in counts[0]}

    mirror.delete(3)
    assert requests() == {"get": 1, "put": 3, "list": 1}
    put_append(world)
    assert requests() == {"get": 2, "put": 1, "list": 1}
    mirror.delete(4)
    assert requests() == {"get": 2, "put": 3, "list": 1}
