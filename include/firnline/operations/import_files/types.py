"""The types of the columns of an import: of the table, or the widest of all files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firnline.errors import SchemaConflictError
from firnline.types.schema import SchemaUnion, held_as, normalise, widens
from firnline.types.sql import MAX_DIGITS, fold_name, parse_sql_type

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_DIGITS |= {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
_CAST = "write the file anew with the table's type, or import it into another table"


def widest(one: str, other: str) -> str | None:
    """Return the type that holds the values of both; None if there is none.

    Beyond what a table may be widened to, whole numbers fit a DOUBLE and a DECIMAL: whoever casts
    them checks that each one does.

    Args:
        one: canonical type.
        other: likewise.
    """
    for kind, known in ((one, other), (other, one)):
        found = held_as(kind, known)
        if all(found == each or widens(each, found) for each in (one, other)):
            return found
    numbers = {one, other}
    if numbers & {"DOUBLE", "FLOAT"} and numbers <= {"DOUBLE", "FLOAT", *_DIGITS}:
        return "DOUBLE"
    decimals = [_decimal(one), _decimal(other)]
    if None not in decimals and not numbers <= _DIGITS.keys():
        return _widest_decimal([each for each in decimals if each is not None])
    return None


def _decimal(kind: str) -> tuple[int, int] | None:
    """Return digits before and behind the point of a DECIMAL or of whole numbers."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    parsed = parse_sql_type(kind)
    if parsed is None or parsed.name != "DECIMAL":
        return None
    precision, scale = parsed.numbers
    return precision - scale, scale


def _widest_decimal(each: Iterable[tuple[int, int]]) -> str | None:
    before, behind = (max(digits) for digits in zip(*each, strict=True))
    if before + behind > MAX_DIGITS:
        return None
    return f"DECIMAL({before + behind},{behind})"


@dataclass(slots=True)
class Agreement:
    """The columns of table and files; the table's own types stand.

    Args:
        table: columns of the table, which may not be there yet.
        declared: types of columns that are settled otherwise, such as those of paths.
    """

    table: Mapping[str, str]
    declared: Mapping[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    """Column -> type, once ``add`` has been called for all files."""
    _first: dict[str, str] = field(default_factory=dict)
    """Column -> the file that has it first."""

    _spelled: dict[str, str] = field(default_factory=dict)
    """``fold_name`` -> column."""

    def __post_init__(self) -> None:
        self.columns = {**self.declared, **self.table}
        self._spelled = {fold_name(name): name for name in self.columns}

    def add(self, file: str, columns: Mapping[str, str]) -> None:
        """Add the columns of a file.

        Raises:
            SchemaConflictError: no type holds a column of this file and of those before, or two
                columns differ in the case of their letters only; nothing was added then.
        """
        found = {name: self._type_of(file, name, normalise(kind)) for name, kind in columns.items()}
        for name, kind in found.items():
            self.columns[name] = kind
            self._spelled.setdefault(fold_name(name), name)
            self._first.setdefault(name, file)

    def _type_of(self, file: str, name: str, kind: str) -> str:
        other = self._spelled.get(fold_name(name), name)
        if other != name:
            raise SchemaConflictError(
                f"column {name!r} of file {file} differs only in the case of its letters from "
                f"{other!r} of {self._whose(other)}",
                next_step=_CAST,
            )
        so_far = self.columns.get(name)
        if so_far is None or so_far == kind:
            return kind
        wider = widest(so_far, kind)
        settled = name in self.table or name in self.declared
        if wider is not None and (not settled or wider == so_far):
            return wider
        if settled and wider is not None and widens(so_far, wider):
            widen = f"firnline evolve TABLE --widen {shlex.quote(f'{name}={wider}')}"
            raise SchemaConflictError(
                f"column {name!r} is {so_far} in {self._whose(name)} but {kind} in file {file}",
                next_step=f"widen it first with `{widen}`, or {_CAST}",
            )
        raise SchemaConflictError(
            f"column {name!r} is {so_far} in {self._whose(name)} but {kind} in file {file}",
            next_step=_CAST,
        )

    def _whose(self, name: str) -> str:
        return f"file {self._first[name]}" if name in self._first else "the table"

    def casts(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns of a file that are held in another type -> that type."""
        return {
            name: self.columns[name]
            for name, kind in columns.items()
            if self.columns[name] != normalise(kind)
        }

    def into(self, known: SchemaUnion) -> None:
        """Add the columns to those of the table."""
        known.add("the files", self.columns)
