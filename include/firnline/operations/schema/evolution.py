"""A change of the schema without contradictions: wider types, new names, dropped columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from firnline.errors import CHOICES, UsageError, some
from firnline.log.schema_changes import Evolved, line_now, record, split
from firnline.operations.options import Evolution
from firnline.operations.schema.repairs import refuse_deletes
from firnline.operations.schema.target import Target, known_type, storable
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.types.schema import WIDER, normalise, widens
from firnline.types.sql import fold_name


def evolved(
    snapshot: Snapshot, settings: TableSettings, evolution: Evolution
) -> tuple[Target, ...]:
    """Return the columns as they are to be.

    Raises:
        UsageError: nothing is asked for; a column that the table does not have, that is named
            twice, or that the settings need; a type that is not wider; a new name that is taken.
    """
    named = [*evolution.widen, *evolution.rename, *evolution.drop]
    if not named:
        raise UsageError(
            "no column is named", next_step="name one with --widen, --rename or --drop"
        )
    for position, column in enumerate(named):
        if fold_name(column) in map(fold_name, named[:position]):
            raise UsageError(f"column {column!r} is named twice", next_step="name it once")
    held = Held.of(snapshot)
    held.refuse_columns("the change is of", named)
    if evolution.drop:
        held.refuse_loss("a drop of columns")
    schema = {fold_name(name): name for name in snapshot.schema}
    return tuple(_targets(snapshot, settings, evolution, schema))


def _targets(
    snapshot: Snapshot, settings: TableSettings, evolution: Evolution, schema: Mapping[str, str]
) -> Iterator[Target]:
    for column, kind in evolution.widen.items():
        name = _known(column, schema)
        wider = storable(name, known_type(kind))
        _check_wider(name, normalise(snapshot.schema[name]), wider)
        _check_place(settings, name, wider)
        yield Target(name, wider, None)
    for column, new in evolution.rename.items():
        name = _known(column, schema)
        _refuse_needed(settings, name)
        _check_name(name, new, snapshot, schema)
        yield Target(name, "", new, gone=True)
    for column in evolution.drop:
        name = _known(column, schema)
        _refuse_needed(settings, name)
        yield Target(name, "", None, gone=True)
    if evolution.drop and {fold_name(column) for column in evolution.drop} >= schema.keys():
        raise UsageError(
            "a table without columns holds nothing", next_step="keep one, or drop the partitions"
        )


def _known(column: str, schema: Mapping[str, str]) -> str:
    """Return the column in the table's spelling. Raises UsageError."""
    if fold_name(column) not in schema:
        raise UsageError(
            f"the table has no column {column!r}",
            next_step=f"correct the name; the columns are {some(schema.values(), CHOICES)}",
        )
    return schema[fold_name(column)]


def _check_wider(column: str, kind: str, new: str) -> None:
    if kind == new:
        return  # a part may still hold it otherwise
    if widens(kind, new):
        return
    wider = ", ".join(WIDER.get(kind, ()))
    choice = f"choose from: {wider}" if wider else f"no type is wider than {kind}"
    if "STRUCT(" in kind:
        choice = "a wider type has all of its fields, and more"
    raise UsageError(
        f"{new} is not wider than {kind}, which column {column!r} has",
        next_step=f"{choice}; `firnline schema fix TABLE --all-parts --column "
        f"{shlex.quote(column)} --type TYPE` gives a column any other type that holds its values",
    )


def _check_place(settings: TableSettings, column: str, wider: str) -> None:
    """Refuse a change that puts equal values into different directories. Raises UsageError."""
    laid_out = fold_name(column) in (fold_name(f.column) for f in settings.partition_by)
    if laid_out and not wider.endswith("INT") and wider != "INTEGER":
        raise UsageError(
            f"column {column!r} stands in partition_by of table {settings.name}, and as {wider} "
            "its values would be spelled, or hashed, otherwise",
            next_step="keep its type; only whole numbers can become wider there",
        )


def _check_name(column: str, new: str, snapshot: Snapshot, schema: Mapping[str, str]) -> None:
    if not new.strip() or fold_name(new) == fold_name(column):
        raise UsageError(
            f"{new!r} is no other name for column {column!r}", next_step="choose a new name"
        )
    taken = schema.get(fold_name(new))
    if taken is None:
        return
    # An append that began before a rename brings the old name back: then both are there.
    old = schema[fold_name(column)]
    if taken != new or normalise(snapshot.schema[taken]) != normalise(snapshot.schema[old]):
        raise UsageError(
            f"the table has a column {taken!r} of type {snapshot.schema[taken]}",
            next_step="choose another new name",
        )


def _refuse_needed(settings: TableSettings, column: str) -> None:
    cluster, ttl = settings.cluster_by, settings.ttl
    roles = {
        "partition_by": [field.column for field in settings.partition_by],
        "primary_key": list(settings.primary_key),
        "version": [settings.version] if settings.version else [],
        "deleted": [settings.deleted] if settings.deleted else [],
        "sort_by": [field.column for field in settings.sort_by],
        "cluster_by": list(cluster.columns) if cluster is not None else [],
        "ttl.column": [ttl.column] if ttl is not None and ttl.column else [],
        "statistics": list(settings.statistics),
    }
    for role, columns in roles.items():
        if fold_name(column) in map(fold_name, columns):
            last = role in ("partition_by", "primary_key", "version", "deleted")
            raise UsageError(
                f"column {column!r} stands in {role} of table {settings.name}",
                next_step="keep it: rows lie, or are told apart, by it"
                if last
                else f"take it out of {role} in the settings first, apply them; it "
                "can be put in again under its new name",
            )


@dataclass(frozen=True, slots=True)
class LazyPlan:
    """The plan of a change."""

    seq: int
    """Transaction of the snapshot it was made from."""
    what: Evolved
    """The changes, without those that are in force already."""
    schema: Mapping[str, str]
    """The columns afterwards, column -> SQL type."""
    parts: int
    """Live parts, which merges eventually write in the new form."""
    bytes: int

    @property
    def nothing_to_do(self) -> bool:
        """Return True if every column has its requested type already."""
        return self.what == Evolved()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "seq": self.seq,
            "widen": dict(self.what.widen),
            "rename": dict(self.what.rename),
            "drop": list(self.what.drop),
            "schema": dict(self.schema),
            "parts": self.parts,
            "bytes": self.bytes,
        }


def plan_lazily(snapshot: Snapshot, settings: TableSettings, evolution: Evolution) -> LazyPlan:
    """Decide the contents of the record.

    Raises:
        UsageError: as ``evolved``; a new name that a column has, even one of the same type,
            since no part is looked at for one that holds both; a column whose old name or type a
            delete record needs.
    """
    targets = evolved(snapshot, settings, evolution)
    table_columns = {fold_name(name) for name in snapshot.schema}
    for target in targets:
        if target.rename is None:
            continue
        if fold_name(target.rename) in table_columns:
            raise UsageError(
                f"the table has a column {target.rename!r} already",
                next_step="choose another new name, or leave --lazy out if parts hold the column "
                "under either name",
            )
        table_columns.add(fold_name(target.rename))
    what = Evolved(
        widen={
            t.column: t.kept
            for t in targets
            if not t.gone and normalise(snapshot.schema[t.column]) != t.kept
        },
        rename={t.column: t.rename for t in targets if t.rename is not None},
        drop=tuple(t.column for t in targets if t.gone and t.rename is None),
    )
    _, changes = split([record("", what)])
    schema = line_now(changes, snapshot.schema, -1)
    refuse_deletes(snapshot, targets, schema)
    return LazyPlan(
        seq=snapshot.seq,
        what=what,
        schema=schema,
        parts=len(snapshot.live),
        bytes=sum(marker.b for marker in snapshot.live.values()),
    )
