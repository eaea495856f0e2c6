"""Publish the newest state of a table as the next version of its Delta mirror.

The order of the requests is the argument: the head is read first, then the table. A version is
created only by a process that had seen the one before it when it read the table, so its state is
not older. A process that lost the race for a number starts again, and so does one whose put was too
late: it slept right before it. A version is one create-only put, so a crash leaves the mirror as it
was. Deletion vectors, where the settings ask for them, are put
before the version that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import msgspec

from firnline.commit.base import Base, read_base
from firnline.errors import SnapshotUnstableError
from firnline.log.records import Marker
from firnline.mirror.changes import (
    Difference,
    Hidden,
    State,
    by_replay,
    find_difference,
    state_of,
    told_since,
)
from firnline.mirror.delta import columns
from firnline.mirror.delta.actions import (
    DELETION_VECTORS,
    Add,
    CommitInfo,
    DeletionVector,
    Line,
    MetaData,
    Remove,
    Txn,
    encode,
    protocol,
)
from firnline.mirror.delta.head import Head, read_head, withdraw_stray
from firnline.mirror.delta.hiding import (
    NOTHING_HIDDEN,
    HiddenPlan,
    Look,
    hold_of,
    in_parts,
    look_through,
    plan_hidden_rows,
    wrongly_hidden,
)
from firnline.mirror.delta.replay import Shown, replay
from firnline.mirror.delta.stats import file_stats
from firnline.mirror.delta.vectors import (
    Collected,
    Vector,
    Vectors,
    index_of,
    missing_vectors,
)
from firnline.mirror.hold import Hiding, Hold, parts_with_deletes
from firnline.mirror.planned import Planned
from firnline.mirror.position import Position
from firnline.mirror.progress import MirrorProgress, OnProgress, silent, told
from firnline.mirror.published import ATTEMPTS, Published
from firnline.mirror.stated import ops_of, refuse_unstated
from firnline.next_steps import OTHERS_PUBLISHED
from firnline.properties.in_force import put_within, waits
from firnline.state.snapshot import Snapshot
from firnline.store.create import create
from firnline.table import Table

NAME = "delta"
"""The mirror's name in the table's property ``mirror``."""
OPERATION = "MIRROR"


@dataclass(frozen=True)
class Next(Planned):
    """The next version of the mirror, planned on one head and one state."""

    base: Base
    head: Head | None
    now_ms: int
    difference: Difference
    state: State
    schema: str
    hold: Hold | None
    hidden: HiddenPlan = NOTHING_HIDDEN
    again: bool = False
    """It states protocol and columns again, since those of the mirror are damaged."""

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

    def features(self, vectors: Vectors) -> tuple[str, ...]:
        """The reader features from this version on; one that was needed once stays."""
        had = () if self.position is None else self.position.features
        hides = any(vector.rows for vector in vectors.values())
        more = (DELETION_VECTORS,) if hides else ()
        return tuple(sorted({*had, *columns.features_of(self.schema), *more}))

    @property
    def due(self) -> bool:
        """Return True if there is something to publish, and it may be shown."""
        return super().due or (self.hold is None and (self.again or self.hidden.changed))


def publish(
    table: Table,
    *,
    dry_run: bool = False,
    repair: bool = False,
    look: Look | None = None,
    progress: OnProgress = silent,
) -> Published:
    """Publish the newest state, if the mirror does not show it yet and may show it.

    Requests: 1 LIST and 1 ranged GET for the head (see ``head.list_versions``), those of
    ``read_base`` for the state, 1 PUT; after a lost race again. Where the table's log does not tell
    what changed since the head, those of ``replay``. While the mirror has deletion vectors 1 GET
    more, where they change 1 PUT for their index and 1 for new ones, which take the requests of a
    read of the conditions' columns of their parts.

    Args:
        table: the table.
        dry_run: plan only; no part is read.
        repair: look for damage, and where there is some, state everything again that readers need:
            protocol, columns, the files that are wrong, and every vector. Requests more: those of
            ``replay``, and of a mirror with vectors 1 LIST.
        look: finds the hidden rows of parts; None: in the parts (``read.hidden``).
        progress: called with the parts that are looked through for hidden rows, and with the files
            that are written.

    Raises:
        NotMirroredError: the table does not state that it has a mirror.
        MirrorRefusedError: a column has no place in Delta.
        MirrorDamagedError: the mirror is not as it was written.
        OutcomeUnknownError: the store did not say whether the version exists; run it again.
        SnapshotUnstableError: rivals were quicker each time.
        others: as ``read.hidden.hidden_rows``.
    """
    with Collected() as made:
        for lost in range(ATTEMPTS):
            planned = plan_next(table, repair=repair)
            if dry_run or not planned.due:
                return _published(planned, made, written=planned.due, lost=lost, dry_run=dry_run)
            look_through(planned.base, planned.hidden, made, look or in_parts, _looking(progress))
            if _put(table, planned, made, progress):
                return _published(planned, made, written=True, lost=lost)
    raise SnapshotUnstableError(
        f"other processes published {ATTEMPTS} versions of the mirror of "
        f"{table.settings.name} meanwhile",
        next_step=OTHERS_PUBLISHED,
    )


def _looking(progress: OnProgress) -> Callable[[int, int], object]:
    def tell(done: int, total: int) -> None:
        progress(MirrorProgress(format=NAME, stage="look", done=done, total=total))

    return tell


def _put(table: Table, planned: Next, made: Collected, progress: OnProgress) -> bool:
    """Write a version, and its vectors before it.

    Returns False if a rival was first, or it was too late: the newest state is to be published.
    """
    in_time = _in_time(planned)
    if not in_time():
        return False
    hidden, at = planned.hidden, planned.position
    index = "" if at is None else at.vectors
    vectors: dict[str, Vector] = dict(hidden.kept)
    if hidden.changed:
        name = table.ids.uuid7(planned.now_ms)
        vectors |= made.named(name, {each.path: each.ids for each in hidden.make})
        index = name if vectors else ""
        if vectors:
            made.write(table.store, table.paths, name, vectors, in_time)
    key = table.paths.delta_version(planned.version)
    data = encode(_lines(table, planned, vectors, index, progress))
    # Its bytes are its writer's own: the first line has an id.
    if not in_time() or create(table.store, key, data, may_put=in_time) is not None:
        return False
    if in_time():
        return True
    withdraw_stray(table.store, table.paths, planned.version)
    return False


def _in_time(planned: Next) -> Callable[[], bool]:
    """Return what tells whether a version may still be put: for half the grace after the read.

    A machine that was suspended must not publish a state of long ago.
    """
    table, began = planned.base.table, planned.base.began_ms
    return lambda: table.clock.elapsed_ms() - began <= put_within(table.settings)


def plan_next(table: Table, *, repair: bool = False) -> Next:
    """Read the head, then the table, and plan the next version. Requests: see ``publish``."""
    head = read_head(table.store, table.paths)
    now = table.clock.now_ms()
    return plan_on(table, Seen(table, head), now, read_base(table), repair=repair)


def plan_on(table: Table, seen: Seen, now: int, base: Base, *, repair: bool = False) -> Next:
    """Plan the next version.

    Args:
        table: the table.
        seen: the mirror.
        now: wall clock when the table was read, unix ms.
        base: the table as it was read after the head of the mirror.
        repair: state everything again if the mirror is damaged.

    Raises NotMirroredError, MirrorRefusedError, MirrorDamagedError, UsageError.
    """
    head = seen.head
    refuse_unstated(base, NAME)
    snapshot, settings = base.snapshot, base.table.settings
    schema = columns.schema_string(settings.name, snapshot.schema)
    hiding = parts_with_deletes(snapshot)
    hold = hold_of(base, hiding)
    if hold is not None:
        return Next(base, head, now, Difference((), ()), state_of(snapshot), schema, hold)
    again = repair and seen.is_damaged(snapshot, hiding)
    vectors = seen.replayed.vectors if again else seen.vectors
    if again:
        difference = by_replay(snapshot, frozenset(seen.replayed.files), table.paths.delta_path)
    else:
        difference = find_difference(
            snapshot,
            None if head is None else head.position,
            lambda: seen.replayed.files,
            lambda numbers: ops_of(table, numbers),
            table.paths.delta_path,
            told_ms=told_since(settings.cleanup.grace, now),
            queried=settings.merge.sql is not None,
            hidden=Hidden(
                {path: vector.rows for path, vector in vectors.items()},
                frozenset(each.marker.p for each in hiding),
            ),
        )
    again = again or (difference.replayed and seen.damage is not None)
    hidden = plan_hidden_rows(snapshot, hiding, vectors, difference)
    return Next(base, head, now, difference, state_of(snapshot), schema, None, hidden, again)


@dataclass
class Seen:
    """The state of the mirror at its head, as far as it is asked for."""

    table: Table
    head: Head | None

    @cached_property
    def replayed(self) -> Shown:
        """The state, read from the mirror itself."""
        if self.head is None:
            return Shown(-1)
        table, head = self.table, self.head
        return replay(table.store, table.paths, head.version, head.listing)

    @cached_property
    def vectors(self) -> Vectors:
        """Its vectors: by their index, else as its actions name them."""
        if self.head is None:
            return {}
        index = self.index
        return self.replayed.vectors if index is None else index

    @cached_property
    def index(self) -> Vectors | None:
        """The index of its vectors; None where that cannot be used."""
        if self.head is None:
            return {}
        return index_of(self.table.store, self.table.paths, self.head.position)

    @property
    def damage(self) -> str | None:
        """Why engines do not read it as the table, by ``Shown.damage``."""
        return None if self.head is None else self.replayed.damage(self.head.position)

    def is_damaged(self, snapshot: Snapshot, hiding: Sequence[Hiding]) -> bool:
        """Return True if something in it is wrong, for a mirror that states the newest state.

        Args:
            snapshot: the newest state.
            hiding: its parts of which deletes may hide rows.
        """
        if self.head is None:
            return False
        shown, paths = self.replayed, self.table.paths
        return (
            self.damage is not None
            or shown.files != set(map(paths.delta_path, snapshot.live))
            or bool(wrongly_hidden(snapshot, hiding, shown, self.index))
            or bool(missing_vectors(self.table.store, paths, shown.vectors))
        )


def _lines(
    table: Table, planned: Next, vectors: Vectors, index: str, progress: OnProgress
) -> Iterator[Line]:
    at, state, now = planned.position, planned.state, planned.now_ms
    schema_digest = columns.digest(planned.schema)
    features = planned.features(vectors)
    position = Position(
        v=2 if DELETION_VECTORS in features else 1,
        seq=state.seq,
        t=state.t,
        at=now,
        seen=state.seen,
        files=planned.files,
        table=at.table if at else table.ids.uuid7(now),
        created=at.created if at else now,
        columns=schema_digest,
        features=features,
        vectors=index,
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
    if planned.again or at is None or at.features != features:
        yield Line(protocol=protocol(features))
    if planned.again or planned.new_columns:
        yield Line(
            meta_data=MetaData(
                id=position.table, schema_string=planned.schema, created_time=position.created
            )
        )
    yield from _file_lines(planned, vectors, progress)


def _file_lines(planned: Next, vectors: Vectors, progress: OnProgress) -> Iterator[Line]:
    """Yield the files that go and come; one whose hidden rows change goes and comes again."""
    difference, paths = planned.difference, planned.base.snapshot.paths
    still = difference.rearranged
    for path, size in difference.removes:
        yield Line(remove=_remove(planned, path, size, data_change=path not in still))
    changed = planned.hidden.changed_files(vectors)
    for marker in changed:
        yield Line(remove=_remove(planned, paths.delta_path(marker.p), marker.b, data_change=True))
    for marker in told(difference.adds, len(difference.adds), NAME, "write", progress):
        yield Line(add=_add(planned, marker, vectors, data_change=marker.p not in still))
    for marker in changed:
        yield Line(add=_add(planned, marker, vectors, data_change=True))


def _remove(planned: Next, path: str, size: int | None, *, data_change: bool) -> Remove:
    # Only with the vector that it has does a file go: both together are its name.
    return Remove(
        path=path,
        deletion_timestamp=planned.now_ms,
        data_change=data_change,
        size=size,
        vector=_action(planned.hidden.old.get(path)),
    )


def _add(planned: Next, marker: Marker, vectors: Vectors, *, data_change: bool) -> Add:
    snapshot = planned.base.snapshot
    path = snapshot.paths.delta_path(marker.p)
    vector = vectors.get(path)
    if vector is not None and vector.count is not None:
        # A file with a vector has to state its rows.
        marker = msgspec.structs.replace(marker, n=vector.count)
    tight = vector is None or not vector.rows
    return Add(
        path=path,
        size=marker.b,
        modification_time=marker.t,
        data_change=data_change,
        stats=file_stats(marker, snapshot.stats_of(marker), snapshot.schema, tight=tight),
        vector=_action(vector),
    )


def _action(vector: Vector | None) -> DeletionVector | msgspec.UnsetType:
    action = None if vector is None else vector.action()
    return msgspec.UNSET if action is None else action


@cache  # it reads a file
def _engine() -> str:
    from importlib.metadata import version

    return f"firnline/{version('firnline')}"


def _published(
    planned: Next, made: Collected, *, written: bool, lost: int, dry_run: bool = False
) -> Published:
    done, hidden = written and not dry_run, planned.hidden
    newest = planned.version if done else planned.version - 1
    return msgspec.structs.replace(
        planned.result(newest if newest >= 0 else None, written=written, done=done, lost=lost),
        vectors=sum(vector.rows > 0 for vector in hidden.kept.values())
        + sum(made.may_hide(each.path, each.ids) for each in hidden.make),
        vectors_made=len(hidden.make),
        repaired=written and planned.again,
        grace=waits(
            planned.base.snapshot.properties, planned.base.table.settings, planned.now_ms
        ).grace,
    )
