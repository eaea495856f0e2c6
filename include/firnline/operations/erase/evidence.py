"""Evidence after an erase: finds every part of the table that may still hold a key.

By lineage, because the keys themselves are gone: a part is clean when it was written from a state
that the erase is part of (``q``), when a delete of the erase is applied in it (``d``), when the
erase knew it and it held no key, or when its statistics exclude every key of the delete record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from firnline.commit.fold import visible_since
from firnline.errors import DAMAGED_PART
from firnline.log import dated
from firnline.log.records import Marker
from firnline.operations.delete.plan import KeyColumn
from firnline.operations.erase.certificate import Certificate, Remaining, Replaced, remaining
from firnline.operations.erase.keys import KeySet
from firnline.operations.erase.known import Known
from firnline.predicate.tree import And, Equal, In, Or, Predicate, parse_json
from firnline.properties.in_force import Waits, waits
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.table import Table
from firnline.types.values import Scalar


@dataclass(frozen=True, slots=True)
class Inventory:
    """A table's snapshot and listing, as an erase's check finds them."""

    table: Table
    snapshot: Snapshot
    """Read with ``everything=True``, after ``objects`` were listed."""
    objects: Mapping[str, ObjectMeta]
    """Objects under ``_data/``, by key."""
    now_ms: int
    """Wall clock from before ``objects`` were listed."""


@dataclass(frozen=True)
class Search:
    """Inputs of every search for objects that may hold a key of one erase."""

    inventory: Inventory
    certificate: Certificate
    """Of a committed erase."""
    replaced: Replaced
    known: Known
    keys: KeySet | None = None
    """The keys, where somebody has shown that they are those of the certificate."""

    @property
    def table(self) -> Table:
        """The table, with the properties in force."""
        return self.inventory.table

    @cached_property
    def waits(self) -> Waits:
        """Return the times that count for this table."""
        inventory = self.inventory
        return waits(inventory.snapshot.properties, inventory.table.settings, inventory.now_ms)

    @cached_property
    def seen_ms(self) -> int:
        """Return the time at which the erase took effect, unix ms."""
        snapshot, t = self.inventory.snapshot, self.replaced.t
        visible = [
            dated.since(t, visible_since(snapshot, delete), self.inventory.now_ms)
            for delete in self.certificate.deletes
            if delete in snapshot.deletes
        ]
        # Its records are forgotten: it is long ago, whatever its date.
        return max(visible, default=snapshot.effective(t))

    @property
    def over_ms(self) -> int:
        """Return the time, unix ms, by which all who began before the erase have ended or sleep."""
        return self.seen_ms + self.longest_ms

    @property
    def longest_ms(self) -> int:
        """Return how long an append or a run may take, ms."""
        return max(self.waits.append_ttl, self.waits.commit_ttl)

    @cached_property
    def _records(self) -> Mapping[str, tuple[KeyColumn, ...] | None]:
        # Once: a record has up to five million keys, and four searches ask.
        return _records(self.inventory.snapshot, self.certificate, self.keys)

    def may_hold(self) -> Callable[[Marker], bool]:
        """Return what tells of a marker whether its part may hold, or have held, a key."""
        snapshot, seq, known = self.inventory.snapshot, self.replaced.seq, self.known
        records = self._records
        return lambda marker: (
            snapshot.sequence_of(marker) < seq
            and (
                known.is_own(marker.p)
                or not (known.is_clean(marker.p) or _excluded(snapshot, marker, records))
            )
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of the search."""

    deletable: tuple[str, ...]
    """Replaced parts whose grace is over and whose objects exist."""
    remaining: tuple[Remaining, ...]
    """Everything else that may hold a key."""


def collect_evidence(search: Search) -> Findings:
    """Find every named part that may hold a key, of those that the inventory lists; no request."""
    inventory, certificate = search.inventory, search.certificate
    holders = _holders(search)
    due = _due(inventory, holders["replaced part"] + holders["older part"])
    ripe = [p for p in holders["replaced part"] if due[p] <= inventory.now_ms]
    young = [p for p in holders["replaced part"] if due[p] > inventory.now_ms]
    name = inventory.table.settings.name
    return Findings(
        deletable=tuple(ripe),
        remaining=(
            *remaining(
                "replaced part",
                young,
                "readers may still use it: the grace is not over",
                f"run `firnline certificate {name} {certificate.id}` then",
                max((due[p] for p in young), default=None),
            ),
            *_others(name, holders, due),
            *_late_appends(inventory.now_ms, search.seen_ms + search.waits.append_ttl),
        ),
    )


def _others(
    name: str, holders: Mapping[str, Sequence[str]], due: Mapping[str, int]
) -> tuple[Remaining, ...]:
    """Return the parts that the erase did not replace and that may hold a key."""
    return (
        *remaining(
            "older part",
            holders["older part"],
            "replaced by others than this erase, not deleted yet",
            f"run `firnline cleanup {name}` then",
            max((due[p] for p in holders["older part"]), default=None),
        ),
        *remaining(
            "unread part",
            holders["unread part"],
            "could not be read by the erase; readers of firnline hide its rows",
            f"{DAMAGED_PART}; then erase again",
        ),
        *remaining(
            "late part",
            holders["late part"],
            "published beside or after the erase by a writer that began before it; readers of "
            "firnline hide its rows",
            f"run `firnline merge {name}`; if that leaves it alone, show the keys (`firnline "
            f"certificate {name} ID --keys FILE --secret SECRET`), so that its statistics count, "
            "or erase again and take the new certificate",
        ),
    )


def _late_appends(now_ms: int, until: int) -> tuple[Remaining, ...]:
    if now_ms >= until:
        return ()
    return (
        Remaining(
            kind="late append",
            count=0,
            why="an append that began before the erase may still publish rows of the keys",
            next_step="wait until then (append.ttl)",
            until_ms=until,
        ),
    )


def _holders(search: Search) -> dict[str, list[str]]:
    """Return existing parts that may hold a key, by kind."""
    holders: dict[str, list[str]] = {
        kind: [] for kind in ("replaced part", "older part", "unread part", "late part")
    }
    may_hold, known = search.may_hold(), search.known
    for path in search.inventory.objects:
        marker = search.inventory.snapshot.parts.get(path)
        if marker is None or not may_hold(marker):
            continue
        if marker.tmb is not None:
            holders["replaced part" if known.is_own(path) else "older part"].append(path)
        else:
            holders["unread part" if known.is_failed(path) else "late part"].append(path)
    return holders


def _records(
    snapshot: Snapshot, certificate: Certificate, keys: KeySet | None
) -> dict[str, tuple[KeyColumn, ...] | None]:
    """Return delete record -> its key columns; None when the record is no longer in the log."""
    if keys is not None:
        return dict.fromkeys(certificate.deletes, keys.planned())
    return {
        delete: _key_columns(parse_json(snapshot.deletes[delete].where), snapshot.schema)
        if delete in snapshot.deletes
        else None
        for delete in certificate.deletes
    }


def _excluded(
    snapshot: Snapshot, marker: Marker, records: Mapping[str, tuple[KeyColumn, ...] | None]
) -> bool:
    """Return True if no row of any record's keys can be in the part."""
    applied = marker.d or ()
    stats, hashes = snapshot.stats_of(marker), snapshot.hashes_of(marker)
    return all(
        delete in applied
        or (columns is not None and any(column.misses(stats, hashes) for column in columns))
        for delete, columns in records.items()
    )


def _key_columns(tree: Predicate, schema: Mapping[str, str]) -> tuple[KeyColumn, ...]:
    values: dict[str, list[Scalar]] = {}
    for name, listed in _leaves(tree):
        values.setdefault(name, []).extend(listed)
    return tuple(KeyColumn.of(name, schema[name], scalars) for name, scalars in values.items())


def _leaves(tree: Predicate) -> Iterator[tuple[str, tuple[Scalar, ...]]]:
    """Yield columns and values of a predicate as ``KeySet.predicates`` makes them."""
    if isinstance(tree, And | Or):
        for arg in tree.args:
            yield from _leaves(arg)
    elif isinstance(tree, In):
        yield tree.column, tree.values
    elif isinstance(tree, Equal):
        yield tree.column, (tree.value,)


def _due(inventory: Inventory, parts: Collection[str]) -> dict[str, int]:
    """Return part -> time, unix ms, at which tombstone and sighting are both a grace old."""
    asked = dict.fromkeys(parts)
    seen: dict[str, int] = {}
    for key, content in inventory.snapshot.contents.items():
        modified = inventory.snapshot.listing[key].modified_ms
        for marker in content.markers:
            if marker.tmb is not None and marker.p in asked:
                seen[marker.p] = min(modified, seen.get(marker.p, modified))
    grace = waits(inventory.snapshot.properties, inventory.table.settings, inventory.now_ms).grace
    due: dict[str, int] = {}
    for path in asked:
        tmb = inventory.snapshot.parts[path].tmb
        # Replaced parts that are alive cannot be: the transaction that holds them is committed.
        due[path] = (
            inventory.now_ms + 1 if tmb is None else dated.since(tmb, seen[path], inventory.now_ms)
        ) + grace
    return due
