"""Publications in an Iceberg catalog: whole states, one after the other, whatever dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firnline.commit.base import read_base
from firnline.errors import (
    MirrorCatalogError,
    MirrorDamagedError,
    MirrorRefusedError,
    NotMirroredError,
)
from firnline.mirror.delta.checkpoint import Kept
from firnline.mirror.iceberg import commit as commits
from firnline.mirror.iceberg import publish as publishing
from firnline.mirror.iceberg import sweep as sweeping
from firnline.mirror.iceberg import where as wheres
from firnline.mirror.iceberg.commit import MAPPING
from firnline.mirror.iceberg.publish import publish
from firnline.mirror.published import Published
from firnline.operations.mirror import run as running
from firnline.operations.mirror.after import publish_after
from firnline.operations.mirror.check import MirrorDiffersError, run_checks
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.properties.in_force import in_force
from firnline.state.snapshot import read_snapshot
from tests.support.effort import FULL, sample
from tests.support.in_catalog import ROOT, catalog_world, drop, loaded, shown, where
from tests.support.log_tables import SCHEMA, do_merge, put_append, snapshot
from tests.support.mirrors import RUN
from tests.support.world import Crashed, Fault, FaultyStore, SetClock, World, make_world
from tests.unit.mirror.test_changes import step
from tests.unit.mirror.test_publish import CHANGES_OF_COLUMNS, delete, evolve


@pytest.fixture
def world(tmp_path: Path) -> World:
    return catalog_world(tmp_path)


def live(world: World) -> set[str]:
    return set(snapshot(world).live)


def same(world: World) -> bool:
    return run_checks(world.table).same


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60 if FULL else 1))
def test_every_snapshot_shows_the_state_that_the_table_had(seed: int, tmp_path: Path) -> None:
    r, world = random.Random(seed), catalog_world(tmp_path)
    for _ in range(40 if FULL else 12):
        step(world, r)
        if r.random() < 0.6:
            publish(world.table)
            assert shown(world) == live(world)
            summary = loaded(world).metadata.snapshots[-1].summary
            assert summary is not None
            assert summary["total-data-files"] == str(len(live(world)))
            rows = sum(m.n or 0 for m in snapshot(world).live.values())
            assert summary["total-records"] == str(rows)


@pytest.mark.long
def test_an_unchanged_table_gets_no_snapshot(world: World) -> None:
    put_append(world)
    assert publish(world.table).version == 1
    done = publish(world.table)
    assert (done.written, done.version, done.files) == (False, 1, 1)
    assert publish(world.table, dry_run=True).written is False


def test_a_dry_run_writes_nothing(world: World) -> None:
    put_append(world)
    before = dict(world.store.objects)
    done = publish(world.table, dry_run=True)
    assert (done.written, done.version, done.adds) == (True, None, 1)
    assert world.store.objects == before


def test_a_merge_is_a_replacement_for_engines_that_follow_changes(world: World) -> None:
    keys = put_append(world) + put_append(world)
    publish(world.table)
    do_merge(world, keys)
    assert publish(world.table).rearranged == 3
    put_append(world)
    publish(world.table)
    found = [s.summary.operation.value for s in loaded(world).metadata.snapshots if s.summary]
    assert found == ["append", "replace", "append"]


@pytest.mark.long
def test_while_a_delete_may_hide_rows_the_mirror_waits(world: World) -> None:
    keys = put_append(world)
    publish(world.table)
    delete(world)
    put_append(world, q=2)
    done = publish(world.table)
    assert (done.written, done.shown, shown(world)) == (False, 1, set(keys))
    assert done.hold is not None
    with pytest.raises(MirrorDiffersError, match="the Iceberg mirror of table t differs"):
        run_checks(world.table).refuse()
    do_merge(world, keys)
    assert publish(world.table).written
    assert shown(world) == live(world)


@pytest.mark.parametrize(("kind", "what", "waits"), CHANGES_OF_COLUMNS)
def test_a_change_of_columns_that_readers_do_not_see_in_parts_holds_the_mirror(
    world: World, kind: str, what: dict[str, Any], waits: bool
) -> None:
    put_append(world, schema={**SCHEMA, "v": kind})
    publish(world.table)
    evolve(world, **what)
    done = publish(world.table)
    assert (done.hold is not None) == waits
    assert done.columns_changed != waits


def test_a_part_whose_rows_nobody_wrote_down_holds_the_mirror(world: World) -> None:
    put_append(world, rows=None)  # a client of version 1
    done = publish(world.table)
    assert done.hold is not None
    assert "does not know the rows of 1 of its parts" in done.hold.reason
    (report,) = run_checks(world.table).reports
    assert report.hold == done.hold, "a check says why, too"


def fields(world: World) -> dict[str, tuple[int, str]]:
    table = loaded(world).schema()
    return {field.name: (field.field_id, str(field.field_type)) for field in table.fields}


def test_columns_keep_their_ids_until_their_name_or_type_goes(world: World) -> None:
    keys = put_append(world)
    publish(world.table)
    assert fields(world) == {"ts": (1, "timestamp"), "v": (2, "int")}
    put_append(world, schema={**SCHEMA, "new": "DOUBLE"})
    publish(world.table)
    first = fields(world)
    assert (first["ts"][0], first["v"][0]) == (1, 2)
    evolve(world, rename={"v": "w"})
    do_merge(world, [*live(world)])
    publish(world.table)
    assert keys[0] not in shown(world)
    later = fields(world)
    assert later.keys() == {"ts", "w", "new"}
    assert later["w"][0] not in {number for number, _ in first.values()}
    names = loaded(world).metadata.properties[MAPPING]
    assert '"v"' in names, "older snapshots find their columns"


def test_snapshots_that_would_be_read_wrongly_go_with_the_change(world: World) -> None:
    put_append(world)
    publish(world.table)
    evolve(world, rename={"v": "w"})
    do_merge(world, [*live(world)])
    publish(world.table)
    assert len(loaded(world).metadata.snapshots) == 2
    put_append(world, schema={"ts": "TIMESTAMP", "w": "INTEGER", "v": "VARCHAR"}, q=2)
    publish(world.table)
    found = [s.sequence_number for s in loaded(world).metadata.snapshots]
    assert found == [2, 3], "another column has the name of one of the first snapshot"
    assert fields(world)["v"][1] == "string"


@pytest.mark.parametrize(
    "text", ["UTINYINT", "UINTEGER", "UBIGINT", "TIME", "TIMESTAMP_NS", "UUID", "JSON"]
)
def test_a_column_that_iceberg_cannot_hold_is_refused_and_the_mirror_stays(
    world: World, text: str
) -> None:
    put_append(world)
    publish(world.table)
    put_append(world, schema={**SCHEMA, "u": text})
    with pytest.raises(MirrorRefusedError, match=f"column 'u' of table t is {text}"):
        publish(world.table)
    assert len(loaded(world).metadata.snapshots) == 1


def test_too_many_files_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "MOST_FILES", 1)
    put_append(world, "d=1", "d=2")
    with pytest.raises(MirrorRefusedError, match="has 2 live parts, and an Iceberg mirror at most"):
        publish(world.table)


def test_settings_without_a_catalog_publish_nothing(world: World, tmp_path: Path) -> None:
    put_append(world)
    publish(world.table)
    said = read_snapshot(world.store, world.table.paths).properties[-1].values
    for mirror in ([], ["iceberg"], [{"iceberg": {"catalog": "lake"}}]):
        other = make_world(root=ROOT, mirror=mirror).settings
        table = replace(world.table, settings=in_force(other, said), wanted=other)
        with pytest.raises(MirrorRefusedError, match="do not say where its Iceberg mirror is"):
            run_mirror(Work(table, RUN), MirrorOptions())


def test_without_the_library_the_sentence_names_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheres, "find_spec", lambda name: None)
    with pytest.raises(MirrorCatalogError, match="needs the library pyiceberg") as caught:
        run_mirror(Work(world.table, RUN), MirrorOptions())
    assert caught.value.next_step.startswith("run pip install 'pyiceberg")


def test_a_catalog_that_does_not_answer_is_one_sentence_and_nothing_begins(tmp_path: Path) -> None:
    world = catalog_world(tmp_path / "missing")
    put_append(world)
    with pytest.raises(MirrorCatalogError, match="the Iceberg catalog lake does not answer"):
        publish(world.table)
    assert not [key for key in world.store.objects if "/_iceberg/" in key]


def test_one_format_that_fails_does_not_keep_the_other_from_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened: list[int] = []

    def keep_short(_: Any, version: int, __: int) -> Kept:
        shortened.append(version)
        return Kept()

    monkeypatch.setattr(running, "keep_short", keep_short)
    both = ["delta", {"iceberg": where(tmp_path / "missing")}]
    world = catalog_world(tmp_path, mirror=both)
    put_append(world)
    with pytest.raises(MirrorCatalogError):
        run_mirror(Work(world.table, RUN), MirrorOptions())
    assert world.table.paths.delta_version(0) in world.store.objects
    assert shortened == [0], "or its versions would never expire"


def test_who_publishes_with_a_clock_that_is_ahead_sweeps_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "EVERY", 1)
    for _ in range(2):
        put_append(world)
        run_mirror(Work(world.table, RUN), MirrorOptions())
    before = set(world.store.objects)
    put_append(world)
    ahead = SetClock(world.clock.now + 30 * 86_400_000, world.clock.elapsed)
    done = run_mirror(Work(replace(world.table, clock=ahead), RUN), MirrorOptions())
    assert done.iceberg is not None
    assert (done.iceberg.written, done.expired) == (True, 0)
    assert before <= world.store.objects.keys()


@pytest.mark.long
def test_both_formats_are_published_and_compared(tmp_path: Path) -> None:
    world = catalog_world(tmp_path, mirror=["delta", {"iceberg": where(tmp_path)}])
    put_append(world)
    done = run_mirror(Work(world.table, RUN), MirrorOptions())
    assert done.delta is not None
    assert done.iceberg is not None
    assert (done.delta.version, done.iceberg.version) == (0, 1)
    assert [report.format for report in run_checks(world.table).reports] == ["delta", "iceberg"]
    assert same(world)


@pytest.mark.long
def test_a_table_that_does_not_say_so_gets_no_mirror_and_then_says_so(tmp_path: Path) -> None:
    world = make_world(root=ROOT)
    do_merge(world, put_append(world))
    wanted = make_world(root=ROOT, mirror=[{"iceberg": where(tmp_path)}]).settings
    table = replace(world.table, settings=wanted)
    with pytest.raises(NotMirroredError, match=r"does not state mirror: \[iceberg\]"):
        publish(table)
    done = run_mirror(Work(table, RUN), MirrorOptions())
    assert done.iceberg is not None
    assert (done.applied, done.iceberg.version) == (2, 1)


@pytest.mark.long
def test_a_mirror_that_only_the_table_states_is_published_and_goes_on(tmp_path: Path) -> None:
    """Settings that name one format end no other; where they do not say its place, it waits."""
    world = catalog_world(tmp_path)
    put_append(world)
    publish(world.table)
    put_append(world)
    delta = make_world(root=ROOT, mirror=["delta"]).settings
    done = run_mirror(Work(replace(world.table, settings=delta, wanted=None), RUN), MirrorOptions())
    assert done.applied is not None
    assert done.delta is not None
    assert done.iceberg is None
    said = "the Iceberg mirror of t was not published: these settings do not say where it is; "
    assert done.warnings[0].startswith(said)
    assert read_base(world.table).table.settings.mirrors == ("iceberg", "delta")
    outcome = publish_after(replace(world.table, settings=delta, wanted=None), RUN)
    assert (outcome.published, outcome.warnings) == (False, done.warnings)
    only = replace(world.table, settings=world.settings, wanted=None)
    again = run_mirror(Work(only, RUN), MirrorOptions())
    assert again.delta is not None, "which these settings do not name"
    assert (again.applied, again.warnings) == (None, ())
    assert same(world)


@pytest.mark.long
def test_another_table_of_the_same_name_stays_as_it_is(world: World, tmp_path: Path) -> None:
    put_append(world)
    publish(world.table)
    other = catalog_world(tmp_path, root="s3://bucket/other")
    put_append(other)
    with pytest.raises(MirrorRefusedError, match="is not a mirror of s3://bucket/other: its meta"):
        publish(other.table)
    assert same(world)


def foreign(world: World) -> None:
    """Another engine appends an empty snapshot of its own."""
    table = loaded(world)
    with table.transaction() as change, change.update_snapshot().fast_append():
        pass


@pytest.mark.long
def test_a_snapshot_of_somebody_else_is_refused_with_the_way_back(world: World) -> None:
    put_append(world)
    publish(world.table)
    ours = loaded(world).metadata.current_snapshot_id
    foreign(world)
    put_append(world)
    with pytest.raises(MirrorDamagedError, match="which firnline did not write") as caught:
        publish(world.table)
    assert f"roll it back to snapshot {ours}, or drop it" in str(caught.value.next_step)
    drop(world)
    assert publish(world.table).version == 1
    assert same(world)


def test_a_rollback_to_a_snapshot_of_ours_is_gone_on_from(world: World) -> None:
    put_append(world)
    publish(world.table)
    ours = loaded(world).metadata.current_snapshot_id
    assert ours is not None
    foreign(world)
    loaded(world).manage_snapshots().set_current_snapshot(ours).commit()
    put_append(world)
    assert publish(world.table).written
    assert same(world)


@pytest.mark.long
def test_properties_that_somebody_changed_are_set_again(world: World) -> None:
    put_append(world)
    publish(world.table)
    with loaded(world).transaction() as change:
        change.set_properties({"gc.enabled": "true", MAPPING: "[]"})
    put_append(world)
    publish(world.table)
    assert loaded(world).metadata.properties["gc.enabled"] == "false"
    assert '"ts"' in loaded(world).metadata.properties[MAPPING]


@pytest.mark.long
def test_the_requests_of_a_snapshot_of_appends(world: World) -> None:
    put_append(world)
    publish(world.table)
    put_append(world)
    kinds = ("get", "put", "list", "head", "delete")

    def requests(act: Callable[[], object]) -> list[int]:
        before = world.store.counters.as_dict()
        act()
        after = world.store.counters.as_dict()
        return [after[kind] - before[kind] for kind in kinds]

    state = requests(lambda: read_base(world.table))
    whole = requests(lambda: publish(world.table))
    assert [a - b for a, b in zip(whole, state, strict=True)] == [3, 4, 1, 0, 0]


@dataclass
class Racing(FaultyStore):
    """Lets a rival publish in the moment before the list of manifests is put."""

    rival: Callable[[], object] = lambda: None
    times: int = 1
    names: list[str] = field(default_factory=list)

    def put_new(self, key: str, data: bytes) -> None:
        if "/snap-" in key and self.times:
            self.times -= 1
            self.rival()
        super().put_new(key, data)


@pytest.mark.long
@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_loses_the_race_starts_again_from_the_head(world: World, first: bool) -> None:
    put_append(world)
    if not first:
        publish(world.table)
        put_append(world)

    def rival() -> Published:
        put_append(world)
        return publish(world.table)

    done = publish(replace(world.table, store=Racing(world.store, rival=rival)))
    assert (done.written, done.lost_races) == (False, 1)
    assert shown(world) == live(world)


@pytest.mark.long
def test_a_machine_that_was_suspended_does_not_publish_what_it_had_read(world: World) -> None:
    put_append(world)
    slept: list[int] = []

    def sleep() -> None:
        slept.append(world.clock.now)
        world.clock.advance(world.settings.cleanup.grace)

    done = publish(replace(world.table, store=Racing(world.store, rival=sleep)))
    assert (done.written, done.lost_races, len(slept)) == (True, 1, 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("at", sample(range(16), 3, "crashes in a catalog"))
def test_a_run_that_dies_anywhere_leaves_a_mirror_that_the_next_one_continues(
    world: World, kind: str, at: int
) -> None:
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    put_append(world)
    store = FaultyStore(world.store, Fault(at, kind))
    try:
        publish(replace(world.table, store=store))
    except (Crashed, MirrorCatalogError):
        assert shown(world) in (set(keys), live(world))
    publish(world.table)
    assert same(world)


def test_an_answer_of_the_catalog_that_is_lost_is_found_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_append(world)
    real = commits.commit

    def lost(change: Any) -> bool:
        real(change)
        raise ConnectionError("it went away")

    monkeypatch.setattr(publishing, "commit", lost)
    with pytest.raises(MirrorCatalogError, match="it went away"):
        publish(world.table)
    monkeypatch.undo()
    records = [key for key in world.store.objects if "/shown/" in key]
    assert [key.rpartition(".")[2] for key in records] == ["begun"]
    assert publish(world.table).written is False
    assert len([key for key in world.store.objects if "/shown/" in key]) == 2


def test_a_snapshot_that_the_catalog_took_too_late_is_followed_by_the_newest_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process sleeps between the metadata, which it puts in time, and the exchange."""
    put_append(world)
    publish(world.table)
    put_append(world)
    slept: list[int] = []
    write = SqlCatalog._write_metadata

    def written(*args: Any, **named: Any) -> None:
        write(*args, **named)
        if not slept:
            slept.append(world.clock.now)
            world.clock.advance(world.settings.cleanup.grace)
            put_append(world)

    monkeypatch.setattr(SqlCatalog, "_write_metadata", staticmethod(written))
    done = publish(world.table)
    assert (done.written, done.lost_races, len(slept)) == (True, 1, 1)
    assert shown(world) == live(world)
    assert same(world)
