"""The types that log files state for a table's columns, and those that they are to have: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.errors import CHOICES, UsageError, some
from firnline.log.records import Marker
from firnline.operations.options import ColumnFix
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, standing
from firnline.types.held import held
from firnline.types.schema import normalise, variants
from firnline.types.sql import fold_name, parse_sql_type

_ID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(frozen=True, slots=True)
class Target:
    """One column as it is to be."""

    column: str
    kept: str
    """The type that stays under this name, canonical."""
    rename: str | None
    where_types: frozenset[str] = frozenset()
    """Only these types are changed; empty for all others."""
    gone: bool = False
    """No part holds it under this name any more: with ``rename`` under the new one, else not at
    all. ``kept`` means nothing then."""

    @property
    def folded(self) -> str:
        """Its name by ``fold_name``."""
        return fold_name(self.column)

    def wrong(self, name: str, kind: str) -> bool:
        """Return True if a column that a log file states, or a part holds, is changed."""
        if fold_name(name) != self.folded:
            return False
        if self.gone:
            return True
        right = kind == self.kept and (name == self.column or self.rename is not None)
        return not right and (not self.where_types or kind in self.where_types)

    def made_of(self, kind: str) -> tuple[str, str] | None:
        """Return (name, type) that a wrong column becomes; None: it is dropped."""
        if self.gone and self.rename is None:
            return None
        return (self.column, self.kept) if self.rename is None else (self.rename, kind)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        kind = None if self.gone else self.kept
        plain: dict[str, Any] = {"column": self.column, "type": kind, "rename": self.rename}
        return {**plain, "drop": True} if self.gone and self.rename is None else plain


def targets_of(
    snapshot: Snapshot,
    settings: TableSettings,
    fixes: Sequence[ColumnFix],
    where_types: Sequence[str],
    *,
    all_parts: bool,
) -> tuple[Target, ...]:
    """Return the columns as they are to be.

    Raises:
        UsageError: an unknown type, a column twice, a new name that is taken, a rename of a column
            on which rows are told apart or laid out; a column that no log file states or none
            contradicts, unless ``all_parts`` says that parts may contradict their log files.
    """
    if not fixes:
        raise UsageError("no column is named", next_step="name one with --column")
    where = frozenset(known_type(text) for text in where_types)
    targets: dict[str, Target] = {}
    for fix in fixes:
        target = _target(snapshot, settings, fix, where, all_parts=all_parts)
        if target.folded in targets:
            raise UsageError(f"column {fix.column!r} is named twice", next_step="name it once")
        targets[target.folded] = target
    for target in targets.values():
        if target.rename is not None and fold_name(target.rename) in targets:
            raise UsageError(
                f"{target.rename!r} is repaired itself", next_step="choose another new name"
            )
    return tuple(targets.values())


def _target(
    snapshot: Snapshot,
    settings: TableSettings,
    fix: ColumnFix,
    where: frozenset[str],
    *,
    all_parts: bool,
) -> Target:
    if (fix.type is None) == (fix.rename is None):
        raise UsageError(
            f"column {fix.column!r} takes a type or a new name", next_step="give one of them"
        )
    stated_types = statements(snapshot, fold_name(fix.column))
    if not stated_types and (fix.type is None or not all_parts):
        stated = dict.fromkeys(name for _, line in lines(snapshot) for name in line)
        choices = some(stated, CHOICES)
        raise UsageError(
            f"no log file states a column {fix.column!r}",
            next_step=f"correct the name; the columns are {choices or 'none'}; if parts hold it "
            "all the same, give --type and --all-parts",
        )
    if fix.type is not None:
        kept = storable(fix.column, known_type(fix.type))
    else:
        kept = _largest(stated_types, where)
        _check_rename(snapshot, settings, fix)
    target = Target(fix.column, kept, fix.rename, where)
    if not all_parts:
        _refuse_pointless(stated_types, target)
    return target


def _refuse_pointless(stated: Sequence[Statement], target: Target) -> None:
    types = list(dict.fromkeys(statement.type for statement in stated))
    for kind in sorted(target.where_types):
        if kind not in types or kind == target.kept:
            raise UsageError(
                f"no log file states column {target.column!r} as {kind}"
                if kind not in types
                else f"{kind} is the type that column {target.column!r} keeps",
                next_step=f"choose from {', '.join(t for t in types if t != target.kept)}",
            )
    if (
        len(stated) == 1
        and target.rename is None
        and target.wrong(stated[0].column, stated[0].type)
    ):
        raise UsageError(
            f"column {stated[0].column!r} is {types[0]} in every log file: nothing contradicts it",
            next_step="give --all-parts if all of them are wrong: then every part is looked at",
        )


def _largest(stated: Sequence[Statement], where: frozenset[str]) -> str:
    """Return the type of most live bytes; of equals the one that was stated first."""
    sizes: dict[str, int] = {}
    for statement in stated:
        if statement.type not in where:
            sizes[statement.type] = sizes.get(statement.type, 0) + statement.bytes
    if not sizes:
        raise UsageError(
            f"column {stated[0].column!r} has no type that would keep the name",
            next_step="leave one type out of --where-type",
        )
    return max(sizes, key=lambda kind: sizes[kind])


def _check_rename(snapshot: Snapshot, settings: TableSettings, fix: ColumnFix) -> None:
    new = fix.rename or ""
    if not new or fold_name(new) == fold_name(fix.column):
        raise UsageError(
            f"{new!r} is no other name for column {fix.column!r}",
            next_step="choose a new name; --type also brings letters of either case together",
        )
    in_use = variants(lines(snapshot)).get(fold_name(new), {})
    if len(in_use) > 1 or any(name != new for name, _ in in_use):
        raise UsageError(
            f"log files already speak of {' and '.join(f'{n} {k}' for n, k in in_use)}",
            next_step="choose another new name",
        )
    roles = {
        "primary_key": settings.primary_key,
        "version": (settings.version,) if settings.version else (),
        "partition_by": tuple(field.column for field in settings.partition_by),
    }
    for role, columns in roles.items():
        if fold_name(fix.column) in map(fold_name, columns):
            # Without the column, rows of different keys would be one, or lie in a wrong place.
            raise UsageError(
                f"column {fix.column!r} stands in {role} of table {settings.name}: rows need it",
                next_step="give all parts one type with --type",
            )


def known_type(text: str) -> str:
    """Return the canonical name of a type. Raises UsageError."""
    if parse_sql_type(text) is None:
        raise UsageError(
            f"{text!r} is not a SQL type",
            next_step="write it as DuckDB does: BIGINT, DECIMAL(10,2)",
        )
    return normalise(text)


def storable(column: str, kind: str) -> str:
    """Return the type, if Parquet keeps it when a part is read again. Raises UsageError."""
    parsed = parse_sql_type(kind)
    kept = None if parsed is None else held(parsed)
    if kept is None:
        raise UsageError(
            f"column {column!r}: no part holds {kind}",
            next_step="choose a type that Parquet holds, or VARCHAR",
        )
    if str(kept) != kind:
        raise UsageError(
            f"Parquet has no {kind}: column {column!r} would be read as {kept}",
            next_step=f"choose {kept}",
        )
    return kind


@dataclass(frozen=True, slots=True)
class LineSource:
    """A log file that states a column."""

    key: str
    t: int
    """Unix milliseconds."""
    writer: str
    """Host of an append, or the name of the transaction."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A column in one spelling and one type, and the log files and parts that have it so."""

    column: str
    type: str
    sources: tuple[LineSource, ...]
    """In order of their names, which begin with the time."""
    parts: int
    """Live parts that these log files name."""
    rows: int | None
    """Rows of these parts; None when a part does not state its rows."""
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data; times in unix milliseconds."""
        return {
            "column": self.column,
            "type": self.type,
            "parts": self.parts,
            "rows": self.rows,
            "bytes": self.bytes,
            "log_files": [
                {"key": source.key, "t": source.t, "writer": source.writer}
                for source in self.sources
            ],
        }


def lines(snapshot: Snapshot) -> list[tuple[str, Mapping[str, str]]]:
    """Return (log file, its schema line in present names), of the log files whose line counts."""
    log = snapshot.log
    return [(key, snapshot.line(key)) for key in standing(log)]


def disputes(snapshot: Snapshot) -> list[list[Statement]]:
    """Return the columns on which log files disagree, each with all statements about it."""
    return [
        statements(snapshot, folded)
        for folded, said in variants(lines(snapshot)).items()
        if len(said) > 1
    ]


def statements(snapshot: Snapshot, folded: str) -> list[Statement]:
    """Return the statements of log files about one column, in the order of their first occurrence.

    Args:
        snapshot: the state, read ``tolerant``.
        folded: name of the column by ``fold_name``.
    """
    said = variants(lines(snapshot)).get(folded, {})
    return [_statement(snapshot, *which, keys) for which, keys in said.items()]


def live_parts(snapshot: Snapshot, keys: Iterable[str]) -> dict[str, Marker]:
    """Return the live parts that any of these log files names, by path."""
    live = snapshot.live
    return {m.p: live[m.p] for key in keys for m in snapshot.contents[key].markers if m.p in live}


def _statement(snapshot: Snapshot, column: str, kind: str, keys: list[str]) -> Statement:
    parts = live_parts(snapshot, keys).values()
    rows = [marker.n for marker in parts]
    return Statement(
        column=column,
        type=kind,
        sources=tuple(source_of(snapshot, key) for key in keys),
        parts=len(parts),
        rows=None if None in rows else sum(n for n in rows if n is not None),
        bytes=sum(marker.b for marker in parts),
    )


def source_of(snapshot: Snapshot, key: str) -> LineSource:
    """Return writer and time of a log file."""
    name, mark = snapshot.listing[key].name, snapshot.contents[key].x
    if name.seq:
        return LineSource(
            key, name.t, f"transaction {name.seq}" + (f" ({mark.op})" if mark else "")
        )
    host = _host(snapshot.paths, key)
    return LineSource(key, name.t, f"merge of {host}" if name.kind == "foreign-merge" else host)


def _host(paths: TablePaths, key: str) -> str:
    rest = key.removeprefix(paths.log_dir).removesuffix(".jsonl").partition("_")[2]
    return _ID.sub("", rest.removeprefix("m_")) or rest
