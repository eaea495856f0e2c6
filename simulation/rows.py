"""Parts of a few rows as JSON instead of Parquet, and a kernel that works on them.

The real kernel takes milliseconds per part and is not part of the protocol.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from firnline.errors import FirnlineError, ObjectNotFoundError
from firnline.kernel.outputs import metadata_of
from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.parquet.part import WrittenPart
from firnline.parquet.partition import partition_batches
from firnline.parquet.stats import from_table
from firnline.parquet.write import PartFile
from firnline.paths import TablePaths
from firnline.types.digests import Digest, parse_digest, total
from firnline.types.order import SortColumn, order_of
from firnline.types.rowhash import digest_of
from firnline.types.values import Stats
from simulation.aging import moment_of
from simulation.kinds import Kind, is_tombstone
from simulation.proofs import Mistakes
from simulation.store import SimStore
from simulation.updates import changed
from simulation.world import SCHEMA, SimClock, SimIds

Row = dict[str, Any]
_SQL = {
    "int32": "INTEGER",
    "int64": "BIGINT",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "double": "DOUBLE",
    "timestamp[us]": "TIMESTAMP",
}


def encode(
    rows: Sequence[Row], metadata: Mapping[str, str], columns: Mapping[str, str] = SCHEMA
) -> bytes:
    """Encode the rows of a part."""
    part = {"meta": dict(metadata), "columns": dict(columns), "rows": list(rows)}
    return json.dumps(part, default=str).encode()


@lru_cache(maxsize=4096)
def decode(data: bytes) -> tuple[tuple[int, str, str], ...]:
    """Return the rows of a part as key, partition, user."""
    return tuple((row["k"], row["p"], row["u"]) for row in json.loads(data)["rows"])


def whole(data: bytes) -> list[Row]:
    """Return the rows of a part with all columns."""
    found: list[Row] = json.loads(data)["rows"]
    return found


def write_part(
    table: pa.Table,
    path: Path,
    *,
    sort_by: Sequence[SortColumn],
    metadata: Mapping[str, str],
    **_: Any,
) -> PartFile:
    """Write a part of an append; replaces ``parquet.write.write_part``.

    The rows are not sorted: what a part states of its order is wrong here, and must not matter.
    """
    columns = {field.name: _SQL[str(field.type)] for field in table.schema}
    size = path.write_bytes(encode(table.to_pylist(), metadata, columns))
    return PartFile(size, order_of(sort_by))


class _Unchecked:
    def breaking(self, *_: object) -> tuple[int, tuple[Any, ...]]:
        return 0, ()


def unchecked(_scratch: Path) -> AbstractContextManager[_Unchecked]:
    """Replace DuckDB's check of the rows of a replace: here they are always valid."""
    return nullcontext(_Unchecked())


def one_by_one(keys: Sequence[str], one: Callable[[str], None]) -> Generator[None]:
    """Replace ``transfer.each``, which uses threads."""
    for key in keys:
        one(key)
        yield


def stats_of(rows: Sequence[Row], columns: Sequence[str], schema: pa.Schema) -> Stats:
    """Return statistics as a kernel reports them."""
    return from_table(pa.Table.from_pylist(list(rows), schema=schema), list(columns))


_TIME = re.compile(r"CAST\(('[^']*') AS TIMESTAMP\)")
_SQLITE = sqlite3.connect(":memory:", check_same_thread=False)
"""A thousand times faster than DuckDB, with the same results for this table's conditions."""


@lru_cache(maxsize=65536)
def holds(condition: str, k: int, p: str, u: str) -> bool | None:
    """Evaluate a condition for a row; None for null."""
    # SQLite has no times: as texts they compare alike.
    plain = _TIME.sub(r"\1", condition)
    sql = f"SELECT ({plain}) FROM (SELECT ? AS k, ? AS p, ? AS u, ? AS at)"  # noqa: S608
    at = moment_of(k).isoformat(" ", "microseconds")
    (found,) = _SQLITE.execute(sql, (k, p, u, at)).fetchone()
    return None if found is None else bool(found)


@dataclass
class RowEngine:
    """Runs tasks sequentially in the actor's own thread."""

    store: SimStore
    ids: SimIds
    clock: SimClock
    kind: Kind
    mistakes: Mistakes
    application_id: str = "sim"

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        """See ``Engine.run``."""
        for task in tasks:
            yield None
            yield self._result(task)

    def _result(self, task: KernelTask) -> KernelResult:
        try:
            return self._merged(task)
        except FirnlineError as error:
            return KernelResult(
                group=task.group,
                error=error.message,
                error_type=type(error).__name__,
                error_next_step=error.next_step,
                error_key=task.inputs[0].key if isinstance(error, ObjectNotFoundError) else None,
            )

    def _merged(self, task: KernelTask) -> KernelResult:
        users = self._users(task)
        read = [_Read(source, _in_slice(task, self._rows(task, source))) for source in task.inputs]
        for one in read:
            one.visible = [row for row in one.rows if not _hides(one.source, users, row)]
            one.left = one.visible
            if not task.keep_winners:
                one.left = [row for row in one.visible if _keeps(task, row)]
            one.changed = _change(task, one.left)
        kept = _winning(task, read)
        taken = [not task.only_touched or _is_touched(task, one) for one in read]
        if task.primary_key:
            taken = [any(taken) or kept.removed > 0] * len(read)
        touched = list(compress(read, taken))
        rows_in = sum(len(one.rows) for one in touched)
        if not task.primary_key:
            kept = _Kept([row for one in touched for row in one.left])
        if not touched:
            kept = _Kept([])
        deleted = sum(len(one.rows) - len(one.visible) for one in touched)
        if task.layout is not None:
            return self._moved(task, kept.rows, rows_in, deleted)
        pieces = [rows for rows in _pieces(task, kept.rows) if rows]
        metadata = metadata_of(task, taken) if pieces else {}
        parts, digest = self._uploaded(task, metadata, touched, pieces)
        return KernelResult(
            group=task.group,
            parts=parts,
            rows_in=rows_in,
            rows_deleted=deleted,
            rows_deduplicated=kept.superseded,
            rows_removed=rows_in - deleted - len(kept.rows) - kept.superseded,
            rows_changed=sum(one.changed for one in touched),
            unchanged=tuple(one.source.key for one in compress(read, map(not_, taken))),
            rows_hidden={one.source.key: len(one.rows) - len(one.left) for one in touched}
            if task.only_touched
            else {},
            digest=None if digest is None else str(digest),
        )

    def _uploaded(
        self,
        task: KernelTask,
        metadata: Mapping[str, str],
        read: Sequence[_Read],
        pieces: list[list[Row]],
    ) -> tuple[tuple[WrittenPart, ...], Digest | None]:
        """Write an output for each list of rows, after their proof where there is one."""
        sources, rows = tuple(one.source for one in read), [one.rows for one in read]
        digests, digest, wrong = [self._stated(sources)] * len(pieces), None, False
        if len(pieces) != 1 or len(pieces[0]) != sum(map(len, rows)):
            digests = [None] * len(pieces)
        if self.kind.proven and read:
            asked = structs.replace(task, inputs=sources)
            digests, digest, wrong = self.mistakes.prove(asked, self.kind.arrow, rows, pieces)
        parts = tuple(map(partial(self._write, task, metadata), pieces, digests))
        if wrong:
            self.mistakes.parts.update(part.key for part in parts)
        return parts, digest

    def _stated(self, sources: Sequence[KernelInput]) -> Digest | None:
        """Return the sum of what inputs state, as a kernel that only counts does."""
        found = [parse_digest(source.digest) for source in sources]
        known = [each for each in found if each is not None]
        return total(known) if self.kind.evolves and len(known) == len(found) else None

    def _moved(self, task: KernelTask, rows: list[Row], rows_in: int, deleted: int) -> KernelResult:
        """Write an output for each partition; leave all inputs if their own is the only one."""
        found = _by_partition(task, rows)
        if list(found) == [task.partition]:
            keys = tuple(source.key for source in task.inputs)
            return KernelResult(group=task.group, unchanged=keys)
        metadata = metadata_of(task, [True] * len(task.inputs))
        return KernelResult(
            group=task.group,
            parts=tuple(
                self._write(task, metadata, rows, partition=path) for path, rows in found.items()
            ),
            rows_in=rows_in,
            rows_deleted=deleted,
        )

    def _rows(self, task: KernelTask, source: KernelInput) -> list[Row]:
        data = self.store.get(source.key)
        if self.kind.proven or self.kind.updates:
            return whole(data)
        if self.kind.evolves:
            return [_by_names_of_today(task, source, row) for row in whole(data)]
        found = decode(data)
        if "at" in self.kind.schema:
            return [{"k": k, "p": p, "u": u, "at": moment_of(k)} for k, p, u in found]
        if "d" in self.kind.schema:
            return [{"k": k, "p": p, "u": u, "d": is_tombstone(k)} for k, p, u in found]
        return [{"k": k, "p": p, "u": u} for k, p, u in found]

    def _users(self, task: KernelTask) -> frozenset[str]:
        if task.keys is None:
            return frozenset()
        return _users_of(self.store.get(task.keys.key))

    def _write(
        self,
        task: KernelTask,
        metadata: Mapping[str, str],
        rows: Sequence[Row],
        digest: Digest | None = None,
        partition: str | None = None,
    ) -> WrittenPart:
        prefix = task.data_prefix
        if task.layout is not None and partition is not None:
            prefix = TablePaths(task.layout.prefix).partition_dir(partition)
            metadata = {**metadata, "firnline.partition": partition}
        key = f"{prefix}{self.ids.uuid7(self.clock.now_ms())}.parquet"
        columns = dict(task.columns)
        data = encode(rows, {**metadata, "firnline.rows": str(len(rows))}, columns)
        self.store.put_data(key, data)
        if digest is None and self.kind.evolves:
            digest = digest_of(pa.Table.from_pylist(rows))
        return WrittenPart(
            key=key,
            partition=task.partition if partition is None else partition,
            bytes=len(data),
            rows=len(rows),
            stats=stats_of(rows, task.stats_columns, self.kind.arrow),
            digest=None if digest is None else str(digest),
            sorted_by=task.sort_by,
        )


def _in_slice(task: KernelTask, rows: list[Row]) -> list[Row]:
    """Return the rows of the task's key ranges; no column of a table here has nulls."""
    for wanted in () if task.slice is None else task.slice.ranges:
        read: Callable[[str], Any] = int if dict(task.columns)[wanted.column] == "BIGINT" else str
        low, high = (None if end is None else read(end) for end in (wanted.low, wanted.high))
        rows = [
            row
            for row in rows
            if (low is None or row[wanted.column] >= low)
            and (high is None or row[wanted.column] < high)
        ]
    return rows


def _by_partition(task: KernelTask, rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows of each partition of a task's layout."""
    assert task.layout is not None
    if not rows:
        return {}
    pieces = partition_batches(pa.Table.from_pylist(rows), task.layout.levels)
    return {path: piece.to_pylist() for path, piece in pieces}


def _by_names_of_today(task: KernelTask, source: KernelInput, row: Row) -> Row:
    named = {made.column: made.names for made in source.sources}
    return {
        column: next((row[n] for n in named.get(column, (column,)) if row.get(n) is not None), None)
        for column, _ in task.columns
    }


@dataclass
class _Read:
    """An input with its rows."""

    source: KernelInput
    rows: list[Row]
    visible: list[Row] = field(default_factory=list)
    left: list[Row] = field(default_factory=list)
    changed: int = 0
    """Rows of ``left`` that the query of an update has changed."""


def _change(task: KernelTask, rows: list[Row]) -> int:
    """Give the rows of an update their new values; return how many these are."""
    if task.changes is None or task.query is None:
        return 0
    found = [n for n, row in enumerate(rows) if _true(task.changes, row)]
    for n in found:
        rows[n] = changed(task.query, rows[n])
    return len(found)


def _is_touched(task: KernelTask, one: _Read) -> bool:
    return one.changed > 0 if task.changes is not None else len(one.left) < len(one.rows)


@dataclass
class _Kept:
    rows: list[Row]
    superseded: int = 0
    removed: int = 0


def _winning(task: KernelTask, read: Sequence[_Read]) -> _Kept:
    """Return the newest row of each key, unless it is to be removed."""
    rows = [(row, one.source.forget) for one in read for row in one.left]
    best: dict[str, tuple[Row, bool]] = {}
    for row, forget in rows:
        known = best.get(row["u"])
        if known is None or task.version is None or row["k"] > known[0]["k"]:
            best[row["u"]] = row, forget
    stay = [row for row, forget in best.values() if not (forget and row["d"])]
    kept = [
        row for row in stay if not task.keep_winners or row["d"] or _keeps(task, row)
    ] if task.primary_key else []  # fmt: skip
    return _Kept(kept, len(rows) - len(stay), len(stay) - len(kept))


def _pieces(task: KernelTask, rows: list[Row]) -> list[list[Row]]:
    """Return the rows by output: ranges that do not overlap if the table is clustered."""
    cluster = task.cluster
    if cluster is None:
        return [rows]
    ordered = sorted(rows, key=lambda row: tuple(row[c] for c in cluster.columns))
    count = min(cluster.outputs, len(ordered))
    return [
        ordered[len(ordered) * i // count : len(ordered) * (i + 1) // count] for i in range(count)
    ]


@lru_cache(maxsize=64)
def _users_of(keys: bytes) -> frozenset[str]:
    return frozenset(pq.read_table(pa.BufferReader(keys))["u"].to_pylist())


def _hides(source: KernelInput, users: frozenset[str], row: Row) -> bool:
    if row["u"] in users:
        return True
    return source.where_hidden is not None and _true(source.where_hidden, row)


def _keeps(task: KernelTask, row: Row) -> bool:
    return task.keep is None or _true(task.keep, row)


def _true(condition: str, row: Row) -> bool:
    return holds(condition, row["k"], row["p"], row["u"]) is True
