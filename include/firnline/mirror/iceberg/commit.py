"""Hand a snapshot to the catalog: with schema, properties and what expires, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from firnline.mirror.iceberg import columns
from firnline.mirror.iceberg.catalog import Opened
from firnline.mirror.iceberg.head import ROOT, Head, position_of
from firnline.mirror.iceberg.io import IMPLEMENTATION, PLACE, StateTooOldError, StoreIO, register
from firnline.mirror.iceberg.orders import updates_of
from firnline.mirror.iceberg.produce import Wanted, produce
from firnline.mirror.position import Position
from firnline.mirror.progress import OnProgress, silent

MAPPING = "schema.name-mapping.default"
PROPERTIES = {
    # Spark and others then refuse to delete files: expire_snapshots, remove_orphan_files, PURGE.
    "gc.enabled": "false",
    "comment": "A mirror of a firnline table, which alone writes to it",
}


@dataclass(frozen=True)
class Commit:
    """A snapshot to be committed on top of a head."""

    opened: Opened
    head: Head | None
    wanted: Wanted
    position: Position
    order: SortOrder
    """The default sort order with it."""
    grace: int
    """Of the table, ms."""
    now_ms: int
    in_time: Callable[[], bool]
    """Returns False once the state that was read is too old to be shown."""
    progress: OnProgress = silent


def commit(change: Commit) -> bool:
    """Write the manifests and let the catalog decide; False when it took too long.

    Raises CommitFailedException, TableAlreadyExistsError: a rival was quicker.
    """
    try:
        with change.opened.place.while_in_time(change.in_time):
            return _create(change) if change.head is None else _append(change, change.head)
    except StateTooOldError:
        return False


def _append(change: Commit, head: Head) -> bool:
    opened = change.opened
    snapshot = produce(head.io, head, change.wanted, change.progress)
    metadata = head.table.metadata
    schema = change.wanted.schema
    former = _former(metadata, schema)
    mapping = columns.mapping_of(schema, former)
    updates = [
        *_schema(metadata, schema),
        *updates_of(metadata, change.order),
        *_properties(metadata, _wanted_properties(opened, mapping)),
        *_put(snapshot),
        *_expire(change, metadata, mapping),
    ]
    requirements: list[TableRequirement] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate(
            {"ref": MAIN_BRANCH, "snapshot-id": head.snapshot.snapshot_id}
        ),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate(
            {"last-assigned-field-id": metadata.last_column_id}
        ),
        # Files name a new order by the number that it gets if nobody adds one meanwhile.
        AssertDefaultSortOrderId.model_validate(
            {"default-sort-order-id": metadata.default_sort_order_id}
        ),
    ]
    if not change.in_time():
        return False
    opened.catalog.commit_table(head.table, tuple(requirements), tuple(updates))
    return True


def _create(change: Commit) -> bool:
    """Make the catalog's table with its first snapshot: readers see all of it or no table."""
    opened = change.opened
    _make_namespace(opened)
    io = StoreIO({PLACE: register(opened.place), "py-io-impl": IMPLEMENTATION})
    snapshot = produce(io, None, change.wanted, change.progress)
    metadata = _first(change)
    staged = StagedTable(opened.identifier, metadata, "", io, opened.catalog)
    updates = (*_begin(metadata), *_put(snapshot))
    if not change.in_time():
        return False
    opened.catalog.commit_table(staged, (AssertCreate(),), updates)
    return True


def _make_namespace(opened: Opened) -> None:
    namespace = opened.identifier[:-1]
    if not opened.catalog.namespace_exists(namespace):
        try:
            opened.catalog.create_namespace(namespace)
        except Exception:
            if not opened.catalog.namespace_exists(namespace):  # a rival was not quicker
                raise


def _first(change: Commit) -> TableMetadata:
    schema, opened = change.wanted.schema, change.opened
    return TableMetadataV2.model_validate(
        {
            "location": opened.location,
            "table-uuid": UUID(change.position.table),
            "last-updated-ms": change.wanted.timestamp_ms,
            "last-column-id": schema.highest_field_id,
            "schemas": [schema],
            "current-schema-id": schema.schema_id,
            "partition-specs": [UNPARTITIONED_PARTITION_SPEC],
            "default-spec-id": UNPARTITIONED_PARTITION_SPEC.spec_id,
            "last-partition-id": PARTITION_FIELD_ID_START - 1,
            "sort-orders": [change.order],
            "default-sort-order-id": change.order.order_id,
            "properties": _wanted_properties(opened, columns.mapping_of(schema, ())),
        }
    )


def _begin(metadata: TableMetadata) -> Iterator[TableUpdate]:
    yield AssignUUIDUpdate(uuid=metadata.table_uuid)
    yield UpgradeFormatVersionUpdate.model_validate({"format-version": metadata.format_version})
    yield AddSchemaUpdate.model_validate({"schema": metadata.schema()})
    yield SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
    yield AddPartitionSpecUpdate(spec=UNPARTITIONED_PARTITION_SPEC)
    yield SetDefaultSpecUpdate.model_validate({"spec-id": -1})
    yield AddSortOrderUpdate.model_validate({"sort-order": metadata.sort_order()})
    yield SetDefaultSortOrderUpdate.model_validate({"sort-order-id": -1})
    yield SetLocationUpdate(location=metadata.location)
    yield SetPropertiesUpdate(updates=metadata.properties)


def _wanted_properties(opened: Opened, mapping: NameMapping) -> dict[str, str]:
    return {
        **PROPERTIES,
        ROOT: opened.root.url.rstrip("/"),
        MAPPING: mapping.model_dump_json(),
    }


def _former(metadata: TableMetadata, schema: Schema) -> list[Schema]:
    """Return the schemas of snapshots that can still be read, the newest first."""
    used = {snapshot.schema_id for snapshot in metadata.snapshots}
    readable = [
        s for s in metadata.schemas if s.schema_id in used and s.schema_id != schema.schema_id
    ]
    return sorted(readable, key=lambda s: -s.schema_id)


def _schema(metadata: TableMetadata, schema: Schema) -> Iterator[TableUpdate]:
    if schema.schema_id == metadata.current_schema_id:
        return
    if any(each.schema_id == schema.schema_id for each in metadata.schemas):
        yield SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id})
        return
    yield AddSchemaUpdate.model_validate({"schema": schema})
    yield SetCurrentSchemaUpdate.model_validate({"schema-id": -1})


def _properties(metadata: TableMetadata, stated: dict[str, str]) -> Iterator[TableUpdate]:
    other = {k: v for k, v in stated.items() if metadata.properties.get(k) != v}
    if other:
        yield SetPropertiesUpdate(updates=other)


def _put(snapshot: Snapshot) -> Iterator[TableUpdate]:
    yield AddSnapshotUpdate(snapshot=snapshot)
    named: dict[str, Any] = {
        "ref-name": MAIN_BRANCH,
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": snapshot.snapshot_id,
    }
    yield SetSnapshotRefUpdate.model_validate(named)


def _expire(change: Commit, metadata: TableMetadata, mapping: NameMapping) -> Iterator[TableUpdate]:
    """Yield the end of snapshots that no reader uses, or that would be read wrongly from now on."""
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    old = set(expired(metadata.snapshots, change.now_ms - change.grace))
    for snapshot in metadata.snapshots:
        schema = schemas.get(-1 if snapshot.schema_id is None else snapshot.schema_id)
        if schema is None or columns.misread(schema, mapping):
            old.add(snapshot.snapshot_id)
    kept = {ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    gone = sorted(old - kept)
    if gone:
        yield RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone})


def expire(opened: Opened, head: Head, old: Collection[int]) -> tuple[str, ...]:
    """Take snapshots out of the catalog; return names of tags and branches that keep some of them.

    Raises CommitFailedException: somebody published meanwhile.
    """
    metadata = head.table.metadata
    refs = {name: ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}
    gone = sorted(set(old) - {*refs.values()})
    if gone:
        at = {"ref": MAIN_BRANCH, "snapshot-id": head.snapshot.snapshot_id}
        opened.catalog.commit_table(
            head.table,
            (AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId.model_validate(at)),
            (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),),
        )
    return tuple(sorted(name for name, number in refs.items() if number in old))


def before(head: Head, seq: int) -> frozenset[int]:
    """Return the ids of the snapshots that show a state of before a transaction."""
    shown = {s.snapshot_id: position_of(s) for s in head.table.metadata.snapshots}
    return frozenset(i for i, position in shown.items() if position is None or position.seq < seq)


def expired(snapshots: Iterable[Snapshot], limit_ms: int) -> Iterator[int]:
    """Yield the ids of snapshots that a newer one replaced at or before a time, unix ms."""
    ordered = sorted(snapshots, key=lambda s: s.sequence_number or 0)
    for snapshot, after in pairwise(ordered):
        if after.timestamp_ms <= limit_ms:
            yield snapshot.snapshot_id
