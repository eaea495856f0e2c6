"""Publish the newest state of a table as the next version of its Delta mirror.

The order of the requests is the argument: the head is read first, then the table. A version is
created only by a process that had seen the one before it when it read the table, so its state is
not older. A process that lost the race for a number starts again. A version is one create-only put,
so a crash leaves the mirror as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from firnline.commit.base import Base, read_base
from firnline.errors import SnapshotUnstableError
from firnline.log.records import Marker
from firnline.mirror.changes import Difference, State, find_difference, state_of
from firnline.mirror.delta import columns
from firnline.mirror.delta.actions import (
    Add,
    CommitInfo,
    Line,
    MetaData,
    Remove,
    Txn,
    encode,
    protocol,
)
from firnline.mirror.delta.head import Head, read_head
from firnline.mirror.delta.replay import replay
from firnline.mirror.delta.stats import file_stats
from firnline.mirror.hold import Hold, find_hold
from firnline.mirror.position import Position
from firnline.mirror.published import ATTEMPTS, Published
from firnline.mirror.stated import ops_of, refuse_unstated
from firnline.properties.in_force import put_within
from firnline.store.create import create
from firnline.table import Table

NAME = "delta"
"""The mirror's name in the table's property ``mirror``."""
OPERATION = "MIRROR"


@dataclass(frozen=True)
class Next:
    """The next version of the mirror, planned on one head and one state."""

    base: Base
    head: Head | None
    now_ms: int
    difference: Difference
    state: State
    schema: str
    hold: Hold | None

    @property
    def position(self) -> Position | None:
        """The state that the head shows."""
        return None if self.head is None else self.head.position

    @property
    def version(self) -> int:
        """Number of the next version."""
        return 0 if self.head is None else self.head.version + 1

    @property
    def new_columns(self) -> bool:
        """Return True if the version states the columns."""
        return self.position is None or self.position.columns != columns.digest(self.schema)

    @property
    def features(self) -> tuple[str, ...]:
        """The reader features from this version on; one that was needed once stays."""
        had = () if self.position is None else self.position.features
        return tuple(sorted({*had, *columns.features_of(self.schema)}))

    @property
    def due(self) -> bool:
        """Return True if there is something to publish, and it may be shown."""
        if self.hold is not None:
            return False
        at = self.position
        moved = at is None or at.seq != self.state.seq or at.seen != self.state.seen
        return moved or self.new_columns or not self.difference.empty

    @cached_property
    def files(self) -> int:
        """Files after this version."""
        return len(self.base.snapshot.live)


def publish(table: Table, *, dry_run: bool = False) -> Published:
    """Publish the newest state, if the mirror does not show it yet and may show it.

    Requests: 1 LIST and 1 ranged GET for the head (see ``head.list_versions``), those of
    ``read_base`` for the state, 1 PUT; after a lost race again. Where the table's log does not tell
    what changed since the head, those of ``replay``.

    Args:
        table: the table.
        dry_run: plan only.

    Raises:
        NotMirroredError: the table does not state that it has a mirror.
        MirrorRefusedError: a column has no place in Delta.
        MirrorDamagedError: the mirror is not as it was written.
        OutcomeUnknownError: the store did not say whether the version exists; run it again.
        SnapshotUnstableError: rivals were quicker each time.
    """
    for lost in range(ATTEMPTS):
        found = plan_next(table)
        if dry_run or not found.due:
            return _published(found, written=found.due, lost=lost, dry_run=dry_run)
        key, in_time = table.paths.delta_version(found.version), _in_time(found)
        data = encode(_lines(table, found))
        # Its bytes are its writer's own: the first line has an id.
        if in_time() and create(table.store, key, data, may_put=in_time) is None:
            return _published(found, written=True, lost=lost)
    raise SnapshotUnstableError(
        f"other processes published {ATTEMPTS} versions of the mirror of "
        f"{table.settings.name} meanwhile",
        next_step="try again: the mirror shows what they have published",
    )


def _in_time(found: Next) -> Callable[[], bool]:
    """Return what tells whether a version may still be put: for half the grace after the read.

    A machine that was suspended must not publish a state of long ago.
    """
    table, began = found.base.table, found.base.began_ms
    return lambda: table.clock.elapsed_ms() - began <= put_within(table.settings)


def plan_next(table: Table) -> Next:
    """Read the head, then the table, and plan the next version. Requests: see ``publish``."""
    head = read_head(table.store, table.paths)
    now = table.clock.now_ms()
    base = read_base(table)
    refuse_unstated(base, NAME)
    snapshot, settings = base.snapshot, base.table.settings
    schema = columns.schema_string(settings.name, snapshot.schema)
    hold = find_hold(snapshot, columns.widens_in_place)
    difference = Difference((), ())
    if hold is None:
        difference = find_difference(
            snapshot,
            None if head is None else head.position,
            lambda: _replayed(table, head),
            lambda numbers: ops_of(table, numbers),
            table.paths.delta_path,
            within_ms=settings.cleanup.grace // 2,
            now_ms=now,
            queried=settings.merge.sql is not None,
        )
    return Next(base, head, now, difference, state_of(snapshot), schema, hold)


def _replayed(table: Table, head: Head | None) -> Iterable[str]:
    if head is None:
        return ()
    return replay(table.store, table.paths, head.version, head.listing).files


def _lines(table: Table, found: Next) -> Iterator[Line]:
    at, state, now = found.position, found.state, found.now_ms
    schema_digest = columns.digest(found.schema)
    position = Position(
        seq=state.seq,
        t=state.t,
        at=now,
        seen=state.seen,
        files=found.files,
        table=at.table if at else table.ids.uuid7(now),
        created=at.created if at else now,
        columns=schema_digest,
        features=found.features,
    )
    yield Line(
        commit_info=CommitInfo(
            timestamp=now,
            operation=OPERATION,
            operation_parameters={"seq": str(state.seq)},
            engine_info=_engine(),
            txn_id=table.ids.uuid7(now),
            firnline=position,
        )
    )
    yield Line(txn=Txn(version=state.seq, last_updated=now))
    if at is None or at.features != found.features:
        yield Line(protocol=protocol(found.features))
    if found.new_columns:
        yield Line(
            meta_data=MetaData(
                id=position.table, schema_string=found.schema, created_time=position.created
            )
        )
    yield from _file_lines(found)


def _file_lines(found: Next) -> Iterator[Line]:
    difference = found.difference
    still = difference.rearranged
    for path, size in difference.removes:
        yield Line(
            remove=Remove(
                path=path,
                deletion_timestamp=found.now_ms,
                data_change=path not in still,
                size=size,
            )
        )
    for marker in difference.adds:
        yield Line(add=_add(found, marker, data_change=marker.p not in still))


def _add(found: Next, marker: Marker, *, data_change: bool) -> Add:
    snapshot = found.base.snapshot
    return Add(
        path=snapshot.paths.delta_path(marker.p),
        size=marker.b,
        modification_time=marker.t,
        data_change=data_change,
        stats=file_stats(marker, snapshot.stats_of(marker), snapshot.schema),
    )


def _engine() -> str:
    from importlib.metadata import version

    return f"firnline/{version('firnline')}"


def _published(found: Next, *, written: bool, lost: int, dry_run: bool = False) -> Published:
    at, difference = found.position, found.difference
    done = written and not dry_run
    newest = found.version if done else found.version - 1
    return Published(
        version=newest if newest >= 0 else None,
        written=written,
        seq=found.base.seq,
        shown=found.base.seq if done else (None if at is None else at.seq),
        adds=len(difference.adds),
        removes=len(difference.removes),
        files=found.files if done else (0 if at is None else at.files),
        rearranged=len(difference.rearranged),
        columns_changed=written and found.new_columns,
        replayed=difference.replayed,
        hold=found.hold,
        lost_races=lost,
    )
