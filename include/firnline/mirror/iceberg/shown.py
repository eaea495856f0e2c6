"""Records in the table's own store of the states that its Iceberg mirror shows.

Only the catalog knows which snapshot is the newest, and clean-up must not depend on a catalog. So a
publication writes down, after its commit, the state from which on every new reader sees the mirror.
The states of snapshots only grow, so such a record holds whatever the catalog did since. Before the
first snapshot it writes down that one is about to begin: what died before was never shown. For
clean-up the name of a record says everything. Its content says which table of which catalog shows
the state: read only where the catalog has no table of the name that the settings give.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from firnline.errors import ObjectExistsError, ObjectNotFoundError
from firnline.mirror.retention import NONE, Readers
from firnline.paths import TablePaths
from firnline.store.base import Store

_MOST = 100
"""Records behind the one that clean-up needs, at which they are deleted."""


class Target(msgspec.Struct, frozen=True):
    """The table of a catalog that shows a state."""

    catalog: str
    """Its name in pyiceberg's configuration."""
    table: tuple[str, ...]
    """Namespace and name."""

    def __str__(self) -> str:
        return f"{'.'.join(self.table)} of the Iceberg catalog {self.catalog}"


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    key: str
    seq: int
    """Newest transaction of the state."""
    t: int
    """Its date, unix ms."""
    modified_ms: int
    """When it was written, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Records:
    """All records, in the order of their states."""

    shown: tuple[Record, ...] = ()
    begun: tuple[Record, ...] = ()

    def since(self, seq: int) -> Record | None:
        """Return the oldest record of a state with a transaction."""
        records = (r for r in self.shown if r.seq >= seq)
        return min(records, key=lambda r: r.modified_ms, default=None)


def list_records(store: Store, paths: TablePaths) -> Records:
    """Return the records. Requests: 1 LIST per 1,000 of them."""
    shown: list[Record] = []
    begun: list[Record] = []
    for meta in store.list(paths.iceberg_shown_dir):
        name = paths.parse_iceberg_shown(meta.key)
        if name is not None:
            record = Record(meta.key, name.seq, name.t, meta.modified_ms)
            (begun if name.begun else shown).append(record)
    return Records(tuple(shown), tuple(begun))


def put_record(
    store: Store,
    paths: TablePaths,
    seq: int,
    t: int,
    *,
    begun: bool = False,
    target: Target | None = None,
) -> None:
    """Write down a state. Requests: 1 PUT. One that is there already stays, with its date."""
    content = b"{}" if target is None else msgspec.json.encode(target)
    try:
        store.put_new(paths.iceberg_shown(seq, t, begun=begun), content + b"\n")
    except ObjectExistsError:
        return


def target_of(store: Store, record: Record) -> Target | None:
    """Return the table that a record names; None if it names none, or is gone.

    Requests: 1 GET.
    """
    try:
        return msgspec.json.decode(store.get(record.key), type=Target)
    except (ObjectNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def readers_of(store: Store, paths: TablePaths, grace: int, now_ms: int) -> Readers | None:
    """Return what readers of the mirror may use; None if it was never published.

    Requests: 1 LIST per 1,000 records.

    Args:
        store: of the table.
        paths: of the table.
        grace: how long a reader may use a version after a newer one, ms.
        now_ms: wall clock.
    """
    records = list_records(store, paths)
    if not records.begun and not records.shown:
        return None
    old = [r.t for r in records.shown if r.modified_ms <= now_ms - grace]
    before = min((r.t for r in records.begun), default=NONE)
    until = max(old, default=before)
    newest = max((*records.shown, *records.begun), key=lambda r: (r.seq, r.t, r.modified_ms))
    return Readers(until, newest.seq, newest.modified_ms, "Iceberg")


def superfluous(records: Records, grace: int, now_ms: int) -> list[str]:
    """Return the keys of records that clean-up needs no more; none until they are many."""
    old = [r for r in records.shown if r.modified_ms <= now_ms - grace]
    keep = max(old, key=lambda r: (r.t, r.seq), default=None)
    gone = [r.key for r in old if r is not keep]
    return gone if len(gone) >= _MOST else []
