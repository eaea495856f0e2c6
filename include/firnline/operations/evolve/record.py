"""A change of the schema for which no part is read or written: what its record says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.errors import UsageError
from firnline.log.schema_changes import Evolved, line_now, record, split
from firnline.operations.evolve.plan import Evolution, evolved
from firnline.operations.schema_fix.lines import refuse_deletes
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.sql import fold_name


@dataclass(frozen=True, slots=True)
class LazyPlan:
    """What a change would do."""

    seq: int
    """Transaction of the snapshot it was made from."""
    what: Evolved
    """Without what the table says already."""
    schema: Mapping[str, str]
    """The columns afterwards, column -> SQL type."""
    parts: int
    """Live parts, which merges write in the new form one after the other."""
    bytes: int

    @property
    def nothing_to_do(self) -> bool:
        """Every column has the type that it is to get."""
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
    """Decide what the record says.

    Raises:
        UsageError: as ``evolve.evolved``; a new name that a column has, even one of the same type,
            since no part is looked at for one that holds both; a column whose old name or type a
            delete record needs.
    """
    targets = evolved(snapshot, settings, evolution)
    known = {fold_name(name) for name in snapshot.schema}
    for target in targets:
        if target.rename is None:
            continue
        if fold_name(target.rename) in known:
            raise UsageError(
                f"the table has a column {target.rename!r} already",
                next_step="choose another new name, or leave --lazy out if parts hold the column "
                "under either name",
            )
        known.add(fold_name(target.rename))
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
