"""Evidence after an erase: finds every object of the table that may still hold a key.

By lineage, because the keys themselves are gone: a part is clean when it was written from a state
that the erase is part of (``q``), when a delete of the erase is applied in it (``d``), when the
erase read it and found no key, or when its statistics exclude every key of the delete record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from firnline.commit.fold import visible_since
from firnline.errors import CheckpointError
from firnline.log import codec, dated, txn_file
from firnline.log.records import LogContent, Marker
from firnline.operations.cleanup.plan import TXN_AGE_MS
from firnline.operations.delete.plan import KeyColumn
from firnline.operations.erase.certificate import Certificate, Remaining, remaining
from firnline.predicate.tree import And, Equal, In, Or, Predicate, parse_json
from firnline.properties.in_force import waits
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


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of the search."""

    deletable: tuple[str, ...]
    """Replaced parts whose grace is over and whose objects exist."""
    remaining: tuple[Remaining, ...]
    """Everything else that may hold a key."""


def collect_evidence(inventory: Inventory, certificate: Certificate, seq: int, t: int) -> Findings:
    """Find every object that may hold a key.

    Requests: one LIST of ``_txn/`` and one GET for each transaction there.

    Args:
        inventory: the table.
        certificate: of a committed erase.
        seq: its transaction.
        t: when that was, unix ms.
    """
    table, policy = inventory.table, inventory.table.settings
    others = waits(inventory.snapshot.properties, policy, inventory.now_ms)
    visible = _visible(inventory.snapshot, certificate.deletes)
    # Its records are forgotten: it is long ago, whatever its date.
    seen = max(
        [dated.since(t, at, inventory.now_ms) for at in visible],
        default=inventory.snapshot.effective(t),
    )
    late_until = seen + others.append_ttl
    holders = _holders(inventory, certificate, seq)
    due = _due(inventory, holders["replaced part"] + holders["older part"])
    ripe = [p for p in holders["replaced part"] if due[p] <= inventory.now_ms]
    young = [p for p in holders["replaced part"] if due[p] > inventory.now_ms]
    over = seen + max(others.append_ttl, others.commit_ttl)
    name = policy.name
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
            *_late_appends(inventory.now_ms, late_until),
            *remaining(
                "orphan",
                _orphans(inventory, over),
                "named by no log file, and written by somebody who began before the erase ended",
                f"run `firnline sweep {name}`",
                over if over > inventory.now_ms else None,
            ),
            *_text(table, inventory, certificate),
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
            "repair or drop it, and erase again",
        ),
        *remaining(
            "late part",
            holders["late part"],
            "published beside or after the erase by a writer that began before it; readers of "
            "firnline hide its rows",
            f"run `firnline merge {name}`, or erase again",
        ),
    )


def _visible(snapshot: Snapshot, deletes: Collection[str]) -> list[int]:
    return [visible_since(snapshot, d) for d in deletes if d in snapshot.deletes]


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


def _holders(inventory: Inventory, certificate: Certificate, seq: int) -> dict[str, list[str]]:
    """Return existing parts that may hold a key, by kind."""
    own = {part.key for part in certificate.parts}
    checked, failed = set(certificate.checked), set(certificate.failed)
    records = _records(inventory.snapshot, certificate)
    found: dict[str, list[str]] = {
        kind: [] for kind in ("replaced part", "older part", "unread part", "late part")
    }
    for path in inventory.objects:
        marker = inventory.snapshot.parts.get(path)
        if marker is None or inventory.snapshot.sequence_of(marker) >= seq:
            continue
        if path in own:
            found["replaced part"].append(path)
        elif path.rpartition("/")[2] in checked or _excluded(inventory.snapshot, marker, records):
            continue
        elif marker.tmb is not None:
            found["older part"].append(path)
        else:
            found["unread part" if path in failed else "late part"].append(path)
    return found


def _records(
    snapshot: Snapshot, certificate: Certificate
) -> dict[str, tuple[KeyColumn, ...] | None]:
    """Return delete record -> its key columns; None when the record is no longer in the log."""
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
    return tuple(KeyColumn.of(name, schema[name], found) for name, found in values.items())


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
    wanted = dict.fromkeys(parts)
    seen: dict[str, int] = {}
    for key, content in inventory.snapshot.contents.items():
        modified = inventory.snapshot.listing[key].modified_ms
        for marker in content.markers:
            if marker.tmb is not None and marker.p in wanted:
                seen[marker.p] = min(modified, seen.get(marker.p, modified))
    grace = waits(inventory.snapshot.properties, inventory.table.settings, inventory.now_ms).grace
    due: dict[str, int] = {}
    for path in wanted:
        tmb = inventory.snapshot.parts[path].tmb
        # Replaced parts that are alive cannot be: the transaction that holds them is committed.
        due[path] = (
            inventory.now_ms + 1 if tmb is None else dated.since(tmb, seen[path], inventory.now_ms)
        ) + grace
    return due


def _orphans(inventory: Inventory, before_ms: int) -> list[str]:
    return [
        key
        for key, meta in inventory.objects.items()
        if key not in inventory.snapshot.parts and meta.modified_ms < before_ms
    ]


def _text(table: Table, inventory: Inventory, certificate: Certificate) -> tuple[Remaining, ...]:
    """Return log files and transactions whose text has keys, or bounds of parts that held keys."""
    deletes, parts = set(certificate.deletes), {part.key for part in certificate.parts}
    logs = [
        key
        for key, content in inventory.snapshot.contents.items()
        if _speaks(content, deletes, parts)
    ]
    keys, newest = [], 0
    listing = {meta.key: meta for meta in table.store.list(table.paths.txn_dir, table.paths.birth)}
    for key, data in table.store.get_many({key: meta.size for key, meta in listing.items()}):
        if data is None:
            continue  # past its retention since the listing
        header, log_file = txn_file.decode(key, data, table.paths)
        if _speaks(codec.decode(header.log, log_file, table.paths), deletes, parts):
            keys.append(key)
            newest = max(newest, listing[key].modified_ms)
    return (
        *remaining(
            "log text",
            logs,
            "log files with the delete record, or with bounds of the replaced parts",
            f"regular runs of `firnline cleanup {table.settings.name}` delete it: a record after "
            "append.ttl and the grace, a log file when it is folded and seen for the grace",
        ),
        *remaining(
            "log text",
            keys,
            "transactions with the delete record, or with bounds of the replaced parts",
            f"`firnline cleanup {table.settings.name}` deletes it when 100 newer ones are there",
            newest + TXN_AGE_MS,
        ),
        *remaining(
            "log text",
            _speaking_checkpoints(table, deletes, parts),
            "checkpoints with the delete record, or with bounds of the replaced parts",
            f"`firnline cleanup {table.settings.name}` deletes it when two newer ones are there; "
            "nothing is lost when it is deleted by hand",
        ),
    )


def _speaking_checkpoints(
    table: Table, deletes: Collection[str], parts: Collection[str]
) -> list[str]:
    sizes = {meta.key: meta.size for meta in table.store.list(table.paths.checkpoint_dir)}
    if not sizes:
        return []
    from firnline.log import checkpoint as checkpoint_file

    found = []
    for key, data in table.store.get_many(sizes):
        try:
            held = None if data is None else checkpoint_file.decode(key, data, table.paths)
        except CheckpointError:
            found.append(key)  # its contents are unknown
            continue
        if held is not None and held.speaks_of(deletes, parts):
            found.append(key)
    return sorted(found)


def _speaks(content: LogContent, deletes: Collection[str], parts: Collection[str]) -> bool:
    return any(delete.id in deletes for delete in content.deletes) or any(
        marker.s and marker.p in parts for marker in content.markers
    )
