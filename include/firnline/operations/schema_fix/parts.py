"""The repair of a part with wrong columns: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.errors import UsageError
from firnline.kernel.task import Conversion
from firnline.log.records import Marker
from firnline.operations.schema_fix.target import Target
from firnline.parquet.footers import FooterFacts
from firnline.paths import path_columns
from firnline.state.snapshot import Snapshot
from firnline.types.schema import widens
from firnline.types.sql import fold_name


@dataclass(frozen=True, slots=True)
class PartFix:
    """A part that is rewritten, by itself."""

    marker: Marker
    partition: str
    columns: tuple[tuple[str, str], ...]
    """Columns of the new part."""
    conversions: tuple[Conversion, ...]
    dropped: tuple[str, ...] = ()
    """Columns that the new part does not have."""


@dataclass(slots=True)
class _Made:
    """The columns of one part after the repair."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    conversions: list[Conversion] = field(default_factory=list)
    wider: list[Conversion] = field(default_factory=list)
    """Columns without a conflict: a part that is rewritten gets the table's types."""
    dropped: list[str] = field(default_factory=list)

    def keep(self, name: str, kind: str, wanted: str) -> None:
        if widens(kind, wanted):
            self.wider.append(Conversion(column=name, name=name))
            kind = wanted
        self.columns.append((name, kind))

    def change(self, name: str, made: tuple[str, str] | None) -> None:
        if made is None:
            self.dropped.append(name)
            return
        self.conversions.append(Conversion(column=name, name=made[0]))
        self.columns.append(made)


def _columns_now(
    snapshot: Snapshot, marker: Marker, facts: FooterFacts
) -> Iterator[tuple[str, str]]:
    """Yield a part's columns by the names that the table has for them."""
    held = snapshot.columns_of(marker)
    table = {fold_name(name) for name in snapshot.schema}
    path = {fold_name(n) for n in path_columns(snapshot.paths.parse_part(marker.p).partition)}
    seen: set[str] = set()
    for raw, kind in facts.columns.items():
        name = held.column(raw)
        # One dropped earlier is left out with the other changes; of two names of one
        # column the kernel makes one.
        if name is None or (name in seen and len(held.names(name)) > 1):
            continue
        if fold_name(name) in path - table:
            continue  # a client of version 1 wrote it, and the table does not have it
        seen.add(name)
        yield name, kind


def _kept_type(snapshot: Snapshot, target: Target, name: str, kind: str) -> str:
    """Return the type that a column has once it is changed, as the part holds it or wider.

    A column that is renamed wherever it stands keeps the table's type: a part that was written
    before the column was widened still holds the narrower one.
    """
    wanted = snapshot.schema.get(name, kind)
    return wanted if target.gone and widens(kind, wanted) else kind


def as_it_is(snapshot: Snapshot, marker: Marker, facts: FooterFacts) -> PartFix:
    """Return the rewrite of a part without a conflict, only for the sake of its name."""
    made = _Made()
    for name, kind in _columns_now(snapshot, marker, facts):
        made.keep(name, kind, snapshot.schema.get(name, kind))
    partition = snapshot.paths.parse_part(marker.p).partition
    return PartFix(marker, partition, tuple(made.columns), tuple(made.wider))


def part_fix(
    snapshot: Snapshot,
    marker: Marker,
    facts: FooterFacts,
    targets: Sequence[Target],
    found: Mapping[str, Counter[str]],
) -> PartFix | None:
    """Return the repair of a part; None when it is right. Counts its types in ``found``."""
    made = _Made()
    for name, kind in _columns_now(snapshot, marker, facts):
        target = next((t for t in targets if t.folded == fold_name(name)), None)
        if target is not None:
            found[target.column][kind] += 1
        if target is None or not target.wrong(name, kind):
            made.keep(name, kind, snapshot.schema.get(name, kind))
        else:
            made.change(name, target.made_of(_kept_type(snapshot, target, name, kind)))
    columns, conversions, dropped = made.columns, made.conversions, made.dropped
    if not conversions and not dropped:
        return None
    conversions += made.wider
    if not columns:
        raise UsageError(
            f"part {marker.p} has no other column than {', '.join(dropped)}",
            next_step="keep one of them, or take the rows away with `firnline delete`",
        )
    names = Counter(fold_name(name) for name, _ in columns)
    twice = next((name for name, _ in columns if names[fold_name(name)] > 1), None)
    if twice is not None:
        raise UsageError(
            f"part {marker.p} has a column {twice!r} already",
            next_step="choose another new name",
        )
    partition = snapshot.paths.parse_part(marker.p).partition
    return PartFix(marker, partition, tuple(columns), tuple(conversions), tuple(dropped))
