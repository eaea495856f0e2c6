"""What the footers of a replace's new rows say, before a row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.appends.append import check_partition
from firnline.commit.base import Base
from firnline.errors import PartUnreadableError, UsageError
from firnline.kernel.intake import lacks_column
from firnline.next_steps import WIDEN
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.plan import Span, span_of, with_new_columns
from firnline.operations.replace.rows import no_row
from firnline.operations.replace.staged import StagedFile, staged_files
from firnline.parquet.footers import (
    FooterFacts,
    FooterTask,
    FooterWanted,
    many_facts,
    parse_elsewhere,
)
from firnline.parquet.io import read_local_tail
from firnline.predicate.pruning import Pruner
from firnline.rows.source import CAST, check_files, wrong_usage
from firnline.rows.staged import was_deleted
from firnline.store.base import Store
from firnline.types.schema import SchemaUnion, as_known, normalise
from firnline.types.sql import fold_name
from firnline.types.values import Scalar, bound_key, canonical

_ROUNDED = frozenset({"VARCHAR", "TIMESTAMP_NS", "TIMESTAMPTZ_NS"})
"""Types whose bounds may be wider than the values: texts are cut, nanoseconds rounded."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the footers of all files say together."""

    rows: int = 0
    inside: bool = True
    """True if they prove that every row lies in the interval."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the table and of the files, column -> SQL type."""


def look_at(base: Base, options: ReplaceOptions) -> Looked:
    """Check all footers of the new rows, and what else a run refuses before it reads a row.

    Requests: a LIST (per 1,000 objects) for each URL, and a ranged GET for each staged file (two
    for a very wide one).

    Args:
        base: the table's state.
        options: with files.

    Raises:
        UsageError: a partition that the table does not take; a file that is not there; no row at
            all; rows of which a footer proves that they lie outside of the interval.
        PartUnreadableError, PartSchemaError, SchemaConflictError: a file that does not read or fit.
    """
    table, schema = base.table, base.snapshot.schema
    check_partition(table, options.partition)
    files = staged_files(table, options.files)
    union = SchemaUnion()
    union.add("the table", schema)
    here = [file.path for file in files if file.path is not None]
    if here:
        check_files(here, union)
    span = span_of(options, table.settings)
    spelled = {fold_name(name): name for name in schema}
    names = tuple(spelled.get(fold_name(name), name) for name in span.columns)
    wanted = FooterWanted(columns=union.columns, stats=names, anew=True)
    footers = [_fitting(*each, union) for each in _footers(table.store, files, wanted)]
    if not any(facts.rows for facts in footers):
        raise no_row()
    columns = with_new_columns(schema, union.columns)
    place = _Place(span.bound(columns), columns)
    for file, facts in zip(files, footers, strict=True):
        place.refuse_outside(file.name, facts)
    return Looked(sum(facts.rows for facts in footers), all(map(place.holds, footers)), columns)


def _footers(
    store: Store, files: Sequence[StagedFile], wanted: FooterWanted
) -> Iterator[tuple[StagedFile, FooterFacts]]:
    """Yield each file with its footer, in order."""
    staged = [FooterTask(file.key, file.bytes) for file in files if file.key is not None]
    there = many_facts(store, staged, wanted)
    for file in files:
        if file.path is None:
            yield file, next(there)
        else:
            task = FooterTask(file.name, file.bytes)
            yield file, parse_elsewhere(task, wanted, read_local_tail(file.path))


def _fitting(file: StagedFile, facts: FooterFacts, union: SchemaUnion) -> FooterFacts:
    """Return the footer, and add its columns to those that are known."""
    if facts.gone:
        raise was_deleted(file.name)
    with wrong_usage():
        if facts.error is not None:
            said = facts.error.replace(facts.key, file.name)
            said = said if file.name in said else f"{file.name}: {said}"
            raise PartUnreadableError(said, next_step=facts.next_step)
        columns = as_known(facts.columns, union.columns)
        union.add(f"file {file.name}", columns, next_step=CAST)
    return facts


class _Place:
    """Where new rows have to lie.

    Args:
        span: bound to the columns.
        columns: of the table and of the new rows, column -> SQL type.
    """

    def __init__(self, span: Span, columns: Mapping[str, str]) -> None:
        self._span, self._columns = span, columns
        self._pruner = Pruner(span.predicate(columns), columns)

    def holds(self, facts: FooterFacts) -> bool:
        """Return True if a footer proves that all rows of its file lie inside."""
        return not facts.rows or self._pruner.matches_all(facts.stats)

    def refuse_outside(self, name: str, facts: FooterFacts) -> None:
        """Raise UsageError if a footer proves that a row of its file lies outside."""
        if not facts.rows:
            return
        for column in self._span.columns:
            if column not in facts.columns:
                raise lacks_column(column, str(self._span))
            self._refuse_bounds(name, column, facts)
        if self._pruner.matches_nothing(facts.stats):
            raise _outside(name, self._span, "by the statistics in its footer it has no such row")

    def _refuse_bounds(self, name: str, column: str, facts: FooterFacts) -> None:
        low, high, nulls = facts.stats.get(column, (None, None, 0))
        if nulls:
            rows = f"{nulls:,} of its {facts.rows:,} rows have a null in column {column!r}"
            raise _outside(name, self._span, rows)
        if normalise(facts.columns[column]) in _ROUNDED:
            return  # its bounds need not be values of a row
        for value in (low, high):
            if value is not None and not self._takes(column, value):
                has = f"column {column!r} has values from {low} to {high}"
                raise _outside(name, self._span, has)

    def _takes(self, column: str, value: Scalar) -> bool:
        """Return False if a row with this value lies outside."""
        span, kind = self._span, normalise(self._columns[column])
        key = bound_key(kind)
        assert key is not None  # the span is bound
        try:
            own = key(canonical(kind, value))
        except (ValueError, TypeError):
            return True  # a bound of another type proves nothing
        if column == span.column:
            return bool(key(span.start) <= own < key(span.end))
        return bool(own == key(dict(span.equal)[column]))


def _outside(name: str, span: Span, why: str) -> UsageError:
    return UsageError(
        f"{name} has rows that do not lie in {span}: {why}",
        next_step=WIDEN,
    )
