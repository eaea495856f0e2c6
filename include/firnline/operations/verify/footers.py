"""The check of footers: what each part holds against its marker and the table; pure, no request."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from firnline.errors import DAMAGED_PART
from firnline.log.records import Marker
from firnline.log.schema_changes import AS_IT_IS, PartColumns
from firnline.operations.verify.findings import Findings, Severity, Sum
from firnline.parquet.footers import FooterFacts
from firnline.parquet.words import odd_in_words
from firnline.paths import TablePaths, path_columns
from firnline.types.order import order_text
from firnline.types.schema import normalise, widens
from firnline.types.sql import fold_name
from firnline.units import counted

_ALL_ROWS = "select * from _rows"
_NULL = '"NULL"'
"""Type of a column that holds only nulls."""


@dataclass(frozen=True, slots=True)
class ColumnOtherwise:
    """A column of a part that differs from the table's."""

    name: str
    kind: str
    """SQL type in the part."""
    known: str | None
    """SQL type in the table; None if it has no such column."""

    @property
    def wanted(self) -> str:
        """The type that holds the values of both, if one of them does; else the table's."""
        return self.kind if self.known is None or widens(self.known, self.kind) else self.known

    def __str__(self) -> str:
        """Return the difference, for a sentence."""
        if self.known is None:
            return f"a column {self.name!r} ({self.kind}) that the table does not have"
        return f"column {self.name!r} as {self.kind} where the table has {self.known}"


def _also(parts: Sum) -> str:
    others = parts.count - 1
    if not others:
        return ""
    return f", and so {'has' if others == 1 else 'have'} {counted(others, 'other part')}"


def columns_held(own: PartColumns, facts: FooterFacts) -> frozenset[str]:
    """Return the table's columns that a part holds, by ``fold_name``."""
    named = (own.column(name) for name in facts.columns)
    return frozenset(fold_name(name) for name in named if name is not None)


@dataclass(slots=True)
class FooterCheck:
    """Compares footers with markers, one after the other, then the parts with each other."""

    findings: Findings
    paths: TablePaths
    live: Mapping[str, Marker]
    table: str
    """Name of the table, for commands."""
    columns: Mapping[str, str]
    """The table's, column -> SQL type."""
    disputed: frozenset[str] = frozenset()
    """Columns, by ``fold_name``, of which log files contradict each other: nobody can say which
    part is right."""
    columns_of: Callable[[Marker], PartColumns] = lambda _: AS_IT_IS
    """Maps a part to the conversion of its columns to the table's."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of columns, by the names that they may have in parts."""
    merged: frozenset[str] = frozenset()
    """Parts that clients of version 1 have merged."""
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    """The table's columns that those have, by ``fold_name``."""
    unlike: set[str] = field(default_factory=set)
    """Parts with columns otherwise than the table."""
    count: int = 0
    rows: int = 0
    _replaced: dict[str, str] = field(default_factory=dict)
    """Key of a part -> the live part that was made from it."""
    _otherwise: dict[tuple[ColumnOtherwise, ...], Sum] = field(default_factory=dict)
    """Columns that a part has otherwise than the table -> the parts of which that is so."""
    _odd: dict[tuple[tuple[str, str], ...], Sum] = field(default_factory=dict)
    """The table's columns in another form than that of parts, and what differs -> the parts."""

    def take(self, facts: FooterFacts) -> None:
        """Check one live part's footer."""
        self.count += 1
        if facts.gone:
            return  # reported by check_objects
        if facts.error is not None:
            # What it says to do is for somebody's file, which is no part yet.
            why = facts.error.removeprefix(f"{facts.key} ")
            self._add("error", "footer-unreadable", facts.key, why, DAMAGED_PART)
            return
        self.rows += facts.rows
        marker = self.live[facts.key]
        if marker.n is not None and marker.n != facts.rows:
            self._add(
                "error", "footer-rows", facts.key,
                f"has {counted(facts.rows, 'row')}, and the log states {marker.n}", DAMAGED_PART,
            )  # fmt: skip
        self._check_form(facts, self._check_columns(facts))
        self._check_order(facts)
        self._check_origin(facts)

    def finish(self) -> None:
        """Report columns, and parts that are live beside a part made from them."""
        self._tell_columns()
        for old, new in sorted(self._replaced.items()):
            if old in self.live:
                self._add(
                    "error", "part-twice", old,
                    f"is live, and so is {new}, which was made from it: its rows are there twice",
                    "report this with `firnline history`; a drop of its partition takes out both",
                )  # fmt: skip

    def _check_columns(self, facts: FooterFacts) -> list[ColumnOtherwise]:
        """Return the columns that differ from the table's, which are told of at the end."""
        table = {fold_name(name): kind for name, kind in self.columns.items()}
        held = self.columns_of(self.live[facts.key])
        if facts.key in self.merged:
            self.held[facts.key] = columns_held(held, facts)
        path = {fold_name(n) for n in path_columns(self.paths.parse_part(facts.key).partition)}
        otherwise = []
        for raw, kind in facts.columns.items():
            name = held.column(raw)
            if name is None or fold_name(name) in self.disputed:
                continue
            in_table = table.get(fold_name(name))
            if in_table is None and fold_name(name) in path:
                continue  # a client of version 1 wrote it; merges leave it out
            same = in_table is not None and normalise(in_table) == normalise(kind)
            if in_table is None or not (same or widens(kind, in_table) or kind == _NULL):
                otherwise.append(ColumnOtherwise(name, kind, in_table))
        if otherwise:
            self.unlike.add(facts.key)
            parts = self._otherwise.setdefault(tuple(otherwise), Sum())
            parts.add(facts.key, self.live[facts.key].b)
        return otherwise

    def _check_form(self, facts: FooterFacts, told: Iterable[ColumnOtherwise]) -> None:
        """Look for columns of others that readers understand differently, or not at all.

        Not for those that have another type than the table's, which is ``told`` of them.
        """
        if facts.part is not None:
            return
        held = self.columns_of(self.live[facts.key])
        table = {fold_name(name): name for name in self.columns}
        otherwise = {column.name for column in told}
        odd = [(table.get(fold_name(held.column(n) or "")), why) for n, why in facts.odd.items()]
        untold = tuple((n, why) for n, why in odd if n is not None and n not in otherwise)
        if untold:
            self._odd.setdefault(untold, Sum()).add(facts.key, self.live[facts.key].b)

    def _check_order(self, facts: FooterFacts) -> None:
        """Compare what marker and footer state that the rows are sorted by; either may say nothing.

        A footer that says more than its marker is of an older version: analyze reads it. That of a
        file that no version of firnline has written has no order that counts.
        """
        stated = self.live[facts.key].sorted_by()
        if facts.part is None or not stated or stated == facts.sorted_by:
            return
        footer = order_text(facts.sorted_by) or "nothing"
        name = self.paths.parse_part(facts.key).partition
        only = f" --partitions {shlex.quote(name)}" if name else ""
        self._add(
            "warning", "footer-order", facts.key,
            f"is sorted by {footer} as its footer states, and by {order_text(stated)} by the log",
            f"its rows are right, and are read right; `firnline rewrite {self.table}{only}"
            f" --sql '{_ALL_ROWS}'` sorts them and states it again",
        )  # fmt: skip

    def _tell_columns(self) -> None:
        """Report one finding for all parts that differ in the same columns, and one call for all.

        Another column each would be another rewrite of the same parts.
        """
        step = self._repair()
        for otherwise, parts in self._otherwise.items():
            self._add(
                "error", "footer-schema", parts.first,
                f"has {'; '.join(map(str, otherwise))}{_also(parts)}", step,
            )  # fmt: skip
        for odd, parts in self._odd.items():
            self._add(
                "warning", "part-form", parts.first,
                f"has {odd_in_words(dict(odd))}{_also(parts)}: readers may read different "
                "values there, and merges may refuse it", step,
            )  # fmt: skip

    def _repair(self) -> str:
        types = {name: self.columns[name] for odd in self._odd for name, _ in odd}
        types |= {
            column.name: column.wanted for otherwise in self._otherwise for column in otherwise
        }
        asked = " ".join(
            f"--column {shlex.quote(name)} --type {shlex.quote(kind)}"
            for name, kind in sorted(types.items())
        )
        step = f"`firnline schema fix {self.table} {asked} --all-parts` repairs it"
        if len(self._otherwise) + len(self._odd) > 1:
            step += ", together with the other parts"
        return f"{step}; look with --dry-run first"

    def _check_origin(self, facts: FooterFacts) -> None:
        part = facts.part
        if part is None:
            return
        name = self.paths.parse_part(facts.key)
        for old in facts.inputs:
            self._replaced[old] = facts.key
        if part.table == self.paths.prefix and part.partition != name.partition:
            self._add(
                "warning", "part-moved", facts.key,
                f"was written for partition {part.partition!r}", "move it back or rewrite it",
            )  # fmt: skip

    def _add(self, severity: Severity, kind: str, key: str, sentence: str, next_step: str) -> None:
        self.findings.add(severity, kind, key, sentence, next_step)
