"""The repair of a log file's schema line, and of a part with wrong columns: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.commit.transaction import Repaired
from firnline.errors import CommitConflictError, SchemaConflictError, UsageError
from firnline.kernel.task import Conversion
from firnline.log.records import Marker
from firnline.operations.schema.target import Target, lines
from firnline.parquet.footers import FooterFacts
from firnline.paths import path_columns
from firnline.predicate.tree import bind, columns_of, parse_json
from firnline.state.snapshot import Snapshot
from firnline.types.schema import SchemaUnion, normalise, widens
from firnline.types.sql import fold_name


def wrong_files(snapshot: Snapshot, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the log files that contradict the targets, by name."""
    return tuple(
        key
        for key, line in lines(snapshot)
        if any(
            target.wrong(name, normalise(kind)) for name, kind in line.items() for target in targets
        )
    )


def line_of(
    snapshot: Snapshot,
    targets: Sequence[Target],
    renamed: Mapping[str, str],
    log_files: Iterable[str],
) -> dict[str, str]:
    """Return the schema line for the log file that folds the wrong ones.

    It states what all log files agree on, the targets as they are to be, and what only the folded
    ones say.

    Args:
        snapshot: the state, read ``tolerant``.
        targets: the columns as they are to be.
        renamed: new column -> type.
        log_files: what is folded.

    Raises:
        UsageError: these contradict each other in another column.
    """
    mine = {target.folded for target in targets}
    union = SchemaUnion()
    union.add("the table", _without(snapshot.schema, mine))
    stated = {t.column: t.kept for t in targets if not t.gone}
    union.add("the repair", stated | dict(renamed))
    try:
        for key in log_files:
            union.add(f"log file {key}", _without(snapshot.line(key), mine))
    except SchemaConflictError as error:
        raise UsageError(
            f"log files that have to be corrected contradict each other in another column too: "
            f"{error.message}",
            next_step="give that column as well: --column and --type may be repeated",
        ) from None
    return _in_order(union.columns, snapshot.schema, targets)


def _in_order(
    line: Mapping[str, str], schema: Mapping[str, str], targets: Sequence[Target]
) -> dict[str, str]:
    """Return a schema line in the order of the table: a new name stands where the old one did."""
    names = {t.folded: t.rename for t in targets if t.rename is not None}
    wished = [names.get(fold_name(name), name) for name in schema]
    return {name: line[name] for name in dict.fromkeys([*wished, *line]) if name in line}


def _without(line: Mapping[str, str], folded: set[str]) -> dict[str, str]:
    return {name: kind for name, kind in line.items() if fold_name(name) not in folded}


def gone_of(targets: Sequence[Target]) -> set[str]:
    """Return columns that no longer exist, by ``fold_name``."""
    return {target.folded for target in targets if target.gone}


def refuse_deletes(snapshot: Snapshot, targets: Sequence[Target], line: Mapping[str, str]) -> None:
    """Raise UsageError for a delete record that is not valid for the new types."""
    mine = {target.folded for target in targets}
    for delete in snapshot.deletes.values():
        tree = parse_json(delete.where)
        if not mine & {fold_name(name) for name in columns_of(tree)}:
            continue
        try:
            bind(tree, {**_without(snapshot.schema, gone_of(targets)), **line})
        except UsageError as error:
            raise UsageError(
                f"delete {delete.id} may still hide rows, and would not be understood any more: "
                f"{error.message}",
                next_step="choose the type that the column had when it was made, or --rename",
            ) from None


def repaired(
    snapshot: Snapshot,
    targets: Sequence[Target],
    renamed: Mapping[str, str],
    planned: Collection[str],
) -> Repaired:
    """Return the repair on a base, which may be a later one than it was planned on.

    Args:
        snapshot: the base.
        targets: the columns as they are to be.
        renamed: new column -> type.
        planned: the log files to fold; those that a rival has folded are left to him.

    Raises CommitConflictError when a log file is wrong that is not among the ``planned``.
    """
    wrong, keys = wrong_files(snapshot, targets), [key for key, _ in lines(snapshot)]
    new = [key for key in wrong if key not in planned]
    if new:
        raise CommitConflictError(
            f"log file {new[0]} states a wrong type too and came while the repair ran",
            next_step="stop its writer and run it again",
        )
    folds = tuple(key for key in keys if key in planned)
    return Repaired(
        folds=folds,
        line=line_of(snapshot, targets, renamed, folds),
        gone=frozenset(gone_of(targets)),
    )


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
    anew: tuple[tuple[str, str], ...] = ()
    """Columns in a form that readers understand differently, as the part names them, and their
    types: Arrow writes the part anew before DuckDB reads it."""


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
    anew = _anew(facts)
    return PartFix(marker, partition, tuple(made.columns), tuple(made.wider), anew=anew)


def _anew(facts: FooterFacts) -> tuple[tuple[str, str], ...]:
    """Return the columns of a part of another writer in a form that readers take differently."""
    if facts.part is not None:
        return ()
    return tuple((name, facts.columns[name]) for name in facts.odd if name in facts.columns)


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
    anew = _anew(facts)
    asked = {target.folded for target in targets}
    held = snapshot.columns_of(marker)
    odd = any(fold_name(held.column(name) or "") in asked for name, _ in anew)
    if not (conversions or dropped or odd):
        return None
    conversions += made.wider
    if not columns:
        raise UsageError(
            f"part {marker.p} has no other column than {', '.join(dropped)}",
            next_step="keep one of them, or take the rows away with "
            "`firnline delete TABLE --where CONDITION`",
        )
    names = Counter(fold_name(name) for name, _ in columns)
    twice = next((name for name, _ in columns if names[fold_name(name)] > 1), None)
    if twice is not None:
        raise UsageError(
            f"part {marker.p} has a column {twice!r} already",
            next_step="choose another new name",
        )
    partition = snapshot.paths.parse_part(marker.p).partition
    return PartFix(marker, partition, tuple(columns), tuple(conversions), tuple(dropped), anew)
