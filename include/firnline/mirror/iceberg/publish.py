"""Publish the newest state of a table as the next snapshot of its table in an Iceberg catalog.

The order is that of the Delta mirror: the catalog is asked first, then the table is read. The
catalog takes a snapshot only on top of the one that was read, so its state is not older. A process
that lost the race starts again. Manifests that were written for nothing are deleted by ``sweep``;
until the catalog has taken the snapshot nobody sees them. What the catalog has taken is written
down in the table's own store (``shown``), where clean-up finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import msgspec
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from firnline.commit.base import Base, read_base
from firnline.errors import MirrorRefusedError, SnapshotUnstableError
from firnline.log.records import Marker
from firnline.mirror.changes import Difference, State, find_difference, state_of, told_since
from firnline.mirror.hold import Hold
from firnline.mirror.iceberg import columns
from firnline.mirror.iceberg.catalog import Opened, asked, open_catalog
from firnline.mirror.iceberg.commit import Commit, commit
from firnline.mirror.iceberg.files import data_file
from firnline.mirror.iceberg.head import Head, read_head, refuse_second, replay
from firnline.mirror.iceberg.hold import hold_of
from firnline.mirror.iceberg.orders import Orders, plan_orders
from firnline.mirror.iceberg.produce import Wanted
from firnline.mirror.iceberg.shown import list_records, put_record
from firnline.mirror.planned import Planned
from firnline.mirror.position import Position
from firnline.mirror.progress import OnProgress, silent, told
from firnline.mirror.published import ATTEMPTS, Published
from firnline.mirror.stated import ops_of, refuse_unstated
from firnline.next_steps import OTHERS_PUBLISHED
from firnline.properties.in_force import put_within, waits
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.formats import ending
from firnline.types.order import order_of
from firnline.types.sql import SqlType

NAME = "iceberg"
"""The mirror's name in the table's property ``mirror``."""
MOST_FILES = 100_000
"""Files above which a publication would take too long and more than half a gigabyte of memory."""


@dataclass(frozen=True)
class Next(Planned):
    """The next snapshot of the mirror, planned on one head and one state."""

    base: Base
    opened: Opened
    head: Head | None
    now_ms: int
    difference: Difference
    state: State
    columns: str
    """Digest of the columns."""
    orders: Orders
    hold: Hold | None
    warning: str = ""
    """Of what may be left of the mirror elsewhere."""

    @property
    def schema(self) -> Schema:
        """The schema with it."""
        return self.orders.schema

    @property
    def position(self) -> Position | None:
        """The state that the head shows."""
        return None if self.head is None else self.head.position

    @property
    def version(self) -> int:
        """Sequence number of the next snapshot."""
        return 1 if self.head is None else self.head.table.metadata.next_sequence_number()

    @property
    def grace(self) -> int:
        """The longest that a reader of the table may have, ms."""
        base = self.base
        return waits(base.snapshot.properties, base.table.settings, self.now_ms).grace

    @property
    def new_columns(self) -> bool:
        """Return True if the schema changes with it."""
        return self.head is None or self.schema != self.head.table.schema()


def publish(table: Table, *, dry_run: bool = False, progress: OnProgress = silent) -> Published:
    """Publish the newest state, if the mirror does not show it yet and may show it.

    Requests besides those of ``read_base`` and of the catalog: 1 LIST and 1 PUT for the records of
    what is shown, and those of ``produce``; before the first snapshot ``read_base``, 1 LIST and 1
    PUT more. Most catalogs let the client read and write the metadata: 2 GET and 1 PUT. After a
    lost race all of it again. Where the log does not tell what changed since the head, a GET per
    manifest.

    Args:
        table: the table.
        dry_run: plan only.
        progress: called with the files that are described, and that are written.

    Raises:
        NotMirroredError: the table does not state that it has a mirror.
        MirrorRefusedError: the settings name no catalog, a column has no place in Iceberg, the
            table has too many files, or the catalog has another table of this name.
        MirrorDamagedError: somebody else wrote to the mirror.
        MirrorCatalogError: the catalog fails; what it took, the next run finds.
        SnapshotUnstableError: rivals were quicker each time.
    """
    opened = open_catalog(table)
    for lost in range(ATTEMPTS):
        records = _begin(table, opened, dry_run=dry_run)
        planned = plan_next(table, opened)
        if dry_run or not planned.due:
            if not dry_run and planned.position is not None:
                _tell(table, opened, records, planned.position)
            return _published(planned, written=planned.due, lost=lost, dry_run=dry_run)
        position = _position(table, planned)
        if _commit(table, planned, position, progress):
            _put(table, opened, position)
            return _published(planned, written=True, lost=lost)
    raise SnapshotUnstableError(
        f"other processes published {ATTEMPTS} snapshots of the mirror of "
        f"{table.settings.name} meanwhile",
        next_step=OTHERS_PUBLISHED,
    )


def _begin(table: Table, opened: Opened, *, dry_run: bool) -> frozenset[str]:
    """Write down that a mirror begins, unless that was done; return the keys of all records.

    The catalog is asked, and the table read for the first snapshot, only after that: what died by
    then is never shown.
    """
    records = list_records(table.store, table.paths)
    if not records.begun:
        base = read_base(table)
        refuse_unstated(base, NAME)
        read_head(opened)  # a catalog that does not answer begins nothing for which parts wait
        if not dry_run:
            state = state_of(base.snapshot)
            put_record(
                table.store, table.paths, state.seq, state.t, begun=True, target=opened.target
            )
    return frozenset(record.key for record in records.shown)


def _tell(table: Table, opened: Opened, records: frozenset[str], position: Position) -> None:
    """Write down what a process showed that died before it could do so."""
    if table.paths.iceberg_shown(position.seq, position.t) not in records:
        _put(table, opened, position)


def _put(table: Table, opened: Opened, position: Position) -> None:
    put_record(table.store, table.paths, position.seq, position.t, target=opened.target)


def plan_next(table: Table, opened: Opened) -> Next:
    """Read the head, then the table, and plan the next snapshot. Requests: see ``publish``."""
    head = read_head(opened)
    now = table.clock.now_ms()
    return plan_on(table, opened, head, now, read_base(table))


def plan_on(table: Table, opened: Opened, head: Head | None, now: int, base: Base) -> Next:
    """Plan the next snapshot.

    Args:
        table: the table.
        opened: its catalog.
        head: of the mirror.
        now: wall clock when the table was read, unix ms.
        base: the table as it was read after the head.

    Raises NotMirroredError, MirrorRefusedError, MirrorCatalogError, UsageError.
    """
    refuse_unstated(base, NAME)
    warning = refuse_second(table, opened) if head is None else ""
    snapshot, settings = base.snapshot, base.table.settings
    _refuse_many(snapshot, settings.name)
    kinds = columns.kinds_of(settings.name, snapshot.schema)
    former_orders = () if head is None else head.table.metadata.sort_orders
    orders = plan_orders(former_orders, order_of(settings.sort_by), _schema(head, kinds))
    hold = hold_of(snapshot)
    difference = Difference((), ())
    if hold is None:
        with asked(opened.name):
            difference = find_difference(
                snapshot,
                None if head is None else head.position,
                lambda: () if head is None else replay(head),
                lambda numbers: ops_of(table, numbers),
                opened.root.url_of,
                told_ms=told_since(settings.cleanup.grace, now),
                queried=settings.merge.sql is not None,
            )
    return Next(
        base=base,
        opened=opened,
        head=head,
        now_ms=now,
        difference=difference,
        state=state_of(snapshot),
        columns=columns.digest(kinds),
        orders=orders,
        hold=hold,
        warning=warning,
    )


def _schema(head: Head | None, kinds: dict[str, SqlType]) -> Schema:
    if head is None:
        return columns.evolve(None, 0, 0, kinds)
    metadata = head.table.metadata
    schemas = metadata.schemas
    fresh = max(schema.schema_id for schema in schemas) + 1
    evolved = columns.evolve(head.table.schema(), metadata.last_column_id, fresh, kinds)
    # Catalogs give a schema that was there before its former id.
    return next((schema for schema in schemas if schema.fields == evolved.fields), evolved)


def _refuse_many(snapshot: Snapshot, name: str) -> None:
    if len(snapshot.live) > MOST_FILES:
        raise MirrorRefusedError(
            f"table {name} has {len(snapshot.live)} live parts, and an Iceberg mirror at most "
            f"{MOST_FILES}",
            next_step=f"merge the table, or {ending(name, ['iceberg'])}",
        )


def _position(table: Table, planned: Next) -> Position:
    at, state, now = planned.position, planned.state, planned.now_ms
    return Position(
        seq=state.seq,
        t=state.t,
        at=now,
        seen=state.seen,
        files=planned.files,
        table=at.table if at else table.ids.uuid7(now),
        created=at.created if at else now,
        columns=planned.columns,
    )


def _commit(table: Table, planned: Next, position: Position, progress: OnProgress) -> bool:
    """Return True if the catalog took the snapshot, False if a rival was quicker.

    False also if it took it too late, since this process slept right before: it shows a state of
    long ago, and the next snapshot is to follow at once.
    """
    began = planned.base.began_ms
    base, head = planned.base, planned.head
    change = Commit(
        opened=planned.opened,
        head=head,
        wanted=_wanted(table, planned, position, progress),
        position=position,
        order=planned.orders.default,
        grace=planned.grace,
        now_ms=planned.now_ms,
        # A machine that was suspended must not publish a state of long ago.
        in_time=lambda: table.clock.elapsed_ms() - began <= put_within(base.table.settings),
        progress=progress,
    )
    with asked(planned.opened.name):
        try:
            return commit(change) and change.in_time()
        except (CommitFailedException, TableAlreadyExistsError):
            return False


def _wanted(table: Table, planned: Next, position: Position, progress: OnProgress) -> Wanted:
    difference, metadata = planned.difference, planned.head and planned.head.table.metadata
    moved = difference.rearranged
    come = [planned.opened.root.url_of(m.p) for m in difference.adds if m.p not in moved]
    go = [path for path, _ in difference.removes if path not in moved]
    ident = table.ids.uuid7(planned.now_ms)
    return Wanted(
        snapshot_id=metadata.new_snapshot_id() if metadata else _snapshot_id(ident),
        sequence_number=planned.version,
        # Catalogs refuse one that is older than what they have.
        timestamp_ms=max(planned.now_ms, metadata.last_updated_ms + 1 if metadata else 0),
        schema=planned.schema,
        location=f"{planned.opened.location}/metadata",
        commit=ident,
        position=msgspec.json.encode(position).decode(),
        adds=tuple(
            told(_files(planned, difference.adds), len(difference.adds), NAME, "describe", progress)
        ),
        removes=frozenset(path for path, _ in difference.removes),
        rearranged=bool(moved) and not come and not go,
    )


def _snapshot_id(ident: str) -> int:
    """Return a positive number of 63 bits out of a UUID."""
    digits = ident.replace("-", "")
    return int(digits[-15:], 16) + 1


def _files(planned: Next, markers: Iterable[Marker]) -> Iterable[DataFile]:
    snapshot, number_of = planned.base.snapshot, cache(planned.orders.number_of)
    for marker in markers:
        yield data_file(
            planned.opened.root.url_of(marker.p),
            marker,
            snapshot.stats_of(marker),
            snapshot.schema,
            planned.schema,
            number_of(snapshot.sorted_by(marker)),
        )


def _published(planned: Next, *, written: bool, lost: int, dry_run: bool = False) -> Published:
    done = written and not dry_run
    newest = planned.version if done else (None if planned.head is None else planned.head.version)
    result = planned.result(newest, written=written, done=done, lost=lost)
    return msgspec.structs.replace(
        result, grace=planned.grace, warnings=(planned.warning,) if planned.warning else ()
    )
