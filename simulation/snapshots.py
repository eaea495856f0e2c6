"""Publishers of a mirror in an Iceberg catalog, which die anywhere, and what its readers see.

The same processes take out what has expired, delete metadata that nobody uses, and complete erases.
Only worlds of ``IN_CATALOG`` seeds have them; no other world imports pyiceberg.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot

from firnline.commit.base import take_base
from firnline.mirror.iceberg.catalog import open_catalog
from firnline.mirror.iceberg.commit import MAPPING
from firnline.mirror.iceberg.erasure import clear
from firnline.mirror.iceberg.head import position_of, read_head
from firnline.mirror.iceberg.sweep import sweep
from firnline.mirror.position import Position
from firnline.mirror.retention import LONGEST_WAIT_MS
from firnline.operations.mirror.check import check_iceberg
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.properties.in_force import waits
from simulation.catalog import Lake
from simulation.mirrors import Publishers
from simulation.settings import wanted_by
from simulation.stage import Stage, stage_of
from simulation.world import AHEAD, GRACE, TICK, TTL, Actor, Violation

_SKEWS = (0, 0, 0, -1000 * TICK, AHEAD)
"""Clock skews in ms of processes that publish."""
_CLEARS = 0.2
"""Share of the processes that complete an erase instead, if there is one."""
_DROPS = 0.0005
"""Probability in each step that an operator drops the table in the catalog, once at most."""
_MANIFEST = re.compile(r".*-m\d+\.avro")


@dataclass(frozen=True)
class Version:
    """What a reader sees that begins with one state of the catalog's table."""

    snapshot: int
    position: Position
    parts: frozenset[str]
    """Keys."""
    metadata: frozenset[str]
    """Keys of what leads to them."""
    since: int
    """Unix ms."""
    shown_since: int
    """When its snapshot came, unix ms."""


@dataclass
class CatalogPublishers(Publishers):
    """The processes that keep an Iceberg mirror, and the states of the catalog's table."""

    versions: list[Version] = field(default_factory=list)
    newest: TableMetadata | None = None
    """None without a table."""
    shown: Position | None = None
    """The newest state that was shown since the table was made."""
    known: dict[str, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    """Manifest list -> keys of the parts, and of the metadata that leads to them."""
    erased: set[str] = field(default_factory=set)
    """Keys of parts of which no metadata may state bounds any more."""

    @property
    def lake(self) -> Lake:
        """Return the catalog."""
        found: Lake = self.world.lake
        return found

    def act(self) -> None:
        """Let publishers go on; sometimes an operator drops the catalog's table."""
        world = self.world
        there = self.newest is not None and not self.lake.dropped
        if there and world.chance.happens("drop", world.step, 4742, _DROPS):
            self.lake.drop()
            self._look()
        super().act()

    def _stage(self, actor: Actor) -> Stage:
        if self.world.calm:
            return super()._stage(actor)  # it has to reach the table's state
        roll = self.world.chance.roll(actor.number, 4743)
        actor.skew = _SKEWS[int(roll * len(_SKEWS))]
        settings = wanted_by(self.world, actor)
        return stage_of(self.world, self.oracle, actor, settings)

    def _work(self, stage: Stage) -> None:
        erases = [h for h, _ in self.oracle.committed.values() if h.op == "erase"]
        if erases and not self.world.calm and stage.r.random() < _CLEARS:
            stage.actor.skew = 0
            self._clear(stage, stage.r.choice(erases).log)
            return
        done = run_mirror(Work(stage.table, stage.run), MirrorOptions())
        self.oracle.stats["mirror metadata expired"] += done.expired
        if done.iceberg is not None:
            self._published(stage, done.iceberg, check_iceberg)

    def _clear(self, stage: Stage, erase: str) -> None:
        """Remove the metadata of before an erase, as ``firnline certificate`` does."""
        header, content = self.oracle.committed[erase]
        paths, base = stage.world.paths, take_base(stage.table, everything=True)
        found = {meta.key: meta for meta in stage.table.store.list(paths.iceberg_metadata_dir)}
        if not found:
            return
        table = base.table
        grace = waits(base.snapshot.properties, table.settings, table.clock.now_ms()).grace
        rest = clear(table, header.seq, grace, found)
        stage.actor.tell(f"is done with the erase {header.seq}: {rest}")
        self.oracle.stats[
            "erases that wait for the mirror" if rest else "erases that the mirror completes"
        ] += 1
        if rest is None:
            self.erased |= {m.p for m in content.markers if m.tmb == header.t}
            self._check_erased()

    def _look(self) -> None:
        lake = self.lake
        while lake.taken:
            url, at = lake.taken.pop(0)
            self._take(url, at)
        self._check_objects()

    def _take(self, url: str | None, at: int) -> None:
        """Check a new state of the catalog's table."""
        if url is None:
            # Nothing orders a table that is made anew behind the one that was dropped: the create
            # of a process that began before the drop is as good as any.
            self.newest, self.versions, self.shown = None, [], None
            return
        key = self._key(url)
        metadata = TableMetadataUtil.parse_raw(self.world.objects[key].data.decode())
        self.newest, snapshot = metadata, metadata.current_snapshot()
        position = None if snapshot is None else position_of(snapshot)
        if snapshot is None or position is None:
            raise Violation(f"{key} has no snapshot of ours")
        parts, leading = self._parts(snapshot)
        last = self.versions[-1] if self.versions else None
        same = last is not None and last.snapshot == snapshot.snapshot_id
        shown_since = last.shown_since if last is not None and same else at
        leading |= {key}
        version = Version(snapshot.snapshot_id, position, parts, leading, at, shown_since)
        if not same:
            self.oracle.stats["Iceberg snapshot checked"] += 1
            self._check_order(snapshot, position)
            seen = [k for part in parts for k, _, _ in self.oracle.part_rows[part]]
            skew = self.lake.skews[snapshot.snapshot_id]
            self.check_rows(f"snapshot {snapshot.sequence_number}", seen, position.at - skew)
        self.versions.append(version)
        if self.oracle.columns is not None:
            self._check_columns(metadata)

    def _check_order(self, snapshot: Snapshot, position: Position) -> None:
        """Check that a snapshot shows no older state than was shown before."""
        before, self.shown = self.shown, position
        if before is None:
            return
        lost = set(before.seen.split()) - set(position.seen.split())
        if position.seq < before.seq or (position.seq == before.seq and lost):
            raise Violation(
                f"snapshot {snapshot.sequence_number} shows transaction {position.seq} without "
                f"{sorted(lost)}, and {before.seq} was shown before it"
            )

    def _check_columns(self, metadata: TableMetadata) -> None:
        """Check that every snapshot reads each column of a part under its own name, or null."""
        columns = self.oracle.columns
        assert columns is not None
        mapping = metadata.name_mapping()
        assert mapping is not None, MAPPING
        schemas = {schema.schema_id: schema for schema in metadata.schemas}
        names = {f.field_id: set(f.names) for f in mapping.root if f.field_id is not None}
        for snapshot in metadata.snapshots:
            schema = schemas[snapshot.schema_id or 0]
            for part in self._parts(snapshot)[0]:
                stored = {name for row in columns.parts[part] for name in row}
                for each in schema.fields:
                    if read := (names.get(each.field_id, set()) & stored) - {each.name}:
                        raise Violation(
                            f"snapshot {snapshot.sequence_number} reads {read} of {part} as "
                            f"{each.name}"
                        )
                    if each.name in stored and each.name not in names.get(each.field_id, set()):
                        raise Violation(
                            f"snapshot {snapshot.sequence_number} does not read {each.name} of "
                            f"{part}"
                        )

    def _check_objects(self) -> None:
        """Check that all exists that a reader may use."""
        world, grace = self.world, self.oracle.times.least_grace
        there = world.objects.keys()
        for number, version in enumerate(self.versions):
            last = number == len(self.versions) - 1
            until = 0 if last else self.versions[number + 1].since + grace
            if (last or world.now < until) and (gone := version.metadata - there):
                raise Violation(
                    f"state {number} of the catalog leads to {min(gone)}, which is gone"
                )
            # What waited longer for the next snapshot is deleted all the same.
            waits_until = version.shown_since + LONGEST_WAIT_MS
            until = waits_until if last else min(until, waits_until)
            if world.now < until and (gone := version.parts - there):
                raise Violation(f"state {number} of the catalog shows {min(gone)}, which is gone")
        for snapshot in self.newest.snapshots if self.newest is not None else ():
            if self._key(snapshot.manifest_list) not in there:
                raise Violation(f"the catalog names {snapshot.manifest_list}, which is gone")

    def _check_erased(self) -> None:
        """Check that no metadata states bounds of parts that an erase has replaced."""
        for key in sorted(self.world.objects):
            if key.startswith(self.world.paths.iceberg_metadata_dir) and _MANIFEST.fullmatch(key):
                for part in self._bounded(key) & self.erased:
                    raise Violation(f"{key} states bounds of {part}, whose rows are erased")

    def _bounded(self, key: str) -> set[str]:
        manifest = ManifestFile.from_args(
            manifest_path=self.lake.place.root.url_of(key),
            manifest_length=len(self.world.objects[key].data),
            partition_spec_id=0,
            sequence_number=0,
            added_snapshot_id=0,
        )
        found = manifest.fetch_manifest_entry(self.lake.io(), discard_deleted=False)
        files = (entry.data_file for entry in found)
        return {self._key(f.file_path) for f in files if f.lower_bounds or f.upper_bounds}

    def _parts(self, snapshot: Snapshot) -> tuple[frozenset[str], frozenset[str]]:
        """Return the keys of a snapshot's parts, and of the metadata that leads to them."""
        found = self.known.get(snapshot.manifest_list)
        if found is None:
            io = self.lake.io()
            manifests = snapshot.manifests(io)
            entries = [e for each in manifests for e in each.fetch_manifest_entry(io)]
            parts = frozenset(self._key(entry.data_file.file_path) for entry in entries)
            if len(parts) != len(entries):
                raise Violation(f"snapshot {snapshot.sequence_number} shows a part twice")
            leading = (snapshot.manifest_list, *(each.manifest_path for each in manifests))
            found = self.known[snapshot.manifest_list] = parts, frozenset(map(self._key, leading))
        return found

    def _key(self, url: str) -> str:
        return self.lake.place.root.key_of(url)


def leave_nothing(stage: Stage) -> None:
    """Look through the metadata when all is quiet: what stays is what the newest snapshots need."""
    world = stage.world
    if world.lake.location() is None:
        return
    world.now += 8 * (GRACE + TTL)
    opened = open_catalog(stage.table)
    head = read_head(opened)
    assert head is not None
    sweep(stage.table, opened, head, GRACE)
    root, metadata, io = opened.root, head.table.metadata, world.lake.io()
    used = {head.table.metadata_location, *(each.manifest_list for each in metadata.snapshots)}
    used |= {m.manifest_path for each in metadata.snapshots for m in each.manifests(io)}
    there = {key for key in world.objects if key.startswith(world.paths.iceberg_metadata_dir)}
    if left := there ^ {root.key_of(url) for url in used}:
        raise Violation(f"the metadata {min(left)} is there for ever, or missing")
