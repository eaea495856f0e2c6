"""Parts of a few rows as JSON instead of Parquet, and a kernel that works on them.

The real one needs milliseconds for each; nothing of the protocol lies in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.errors import FirnlineError, ObjectNotFoundError
from firnline.kernel.model import KernelInput, KernelResult, KernelTask
from firnline.part import Stats, WrittenPart
from firnline.stats import from_table
from firnline_dev.simulate.store import SimStore
from firnline_dev.simulate.world import SimClock, SimIds

Row = dict[str, Any]
ARROW = pa.schema([("k", pa.int64()), ("p", pa.string()), ("u", pa.string())])


def encode(rows: Sequence[Row], metadata: Mapping[str, str]) -> bytes:
    """A part."""
    return json.dumps({"meta": dict(metadata), "rows": list(rows)}).encode()


@lru_cache(maxsize=4096)
def decode(data: bytes) -> tuple[tuple[int, str, str], ...]:
    """Rows of a part: key, partition, user."""
    return tuple((row["k"], row["p"], row["u"]) for row in json.loads(data)["rows"])


def write_part(table: pa.Table, path: Path, *, metadata: Mapping[str, str], **_: Any) -> int:
    """What an append writes, in place of ``parquet_io.write_part``."""
    return path.write_bytes(encode(table.to_pylist(), metadata))


class _Unchecked:
    def breaking(self, *_: object) -> tuple[int, tuple[Any, ...]]:
        return 0, ()


def unchecked(_scratch: Path) -> AbstractContextManager[_Unchecked]:
    """In place of the DuckDB that looks at the rows of a replace: here they are right."""
    return nullcontext(_Unchecked())


def stats_of(rows: Sequence[Row], columns: Sequence[str]) -> Stats:
    """As a kernel reports them."""
    return from_table(pa.Table.from_pylist(list(rows), schema=ARROW), list(columns))


_SQLITE = sqlite3.connect(":memory:", check_same_thread=False)
"""A thousandth of DuckDB's time, and the same answers for the simple conditions of this table."""


@lru_cache(maxsize=65536)
def holds(condition: str, k: int, p: str, u: str) -> bool | None:
    """What a condition says of a row."""
    sql = f"SELECT ({condition}) FROM (SELECT ? AS k, ? AS p, ? AS u)"  # noqa: S608
    (found,) = _SQLITE.execute(sql, (k, p, u)).fetchone()
    return None if found is None else bool(found)


@dataclass
class RowEngine:
    """Runs tasks one after the other in the actor's own thread."""

    store: SimStore
    ids: SimIds
    clock: SimClock
    application_id: str = "sim"
    hidden: dict[str, int] = field(default_factory=dict)

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
        kept: list[Row] = []
        untouched: list[str] = []
        hidden: dict[str, int] = {}
        rows_in = deleted = 0
        for source in task.inputs:
            rows = [
                dict(zip("kpu", row, strict=True)) for row in decode(self.store.get(source.key))
            ]
            visible = [row for row in rows if not _hides(source, users, row)]
            left = [row for row in visible if _keeps(task, row)]
            if task.only_touched and len(left) == len(rows):
                untouched.append(source.key)
                continue
            rows_in += len(rows)
            deleted += len(rows) - len(visible)
            hidden[source.key] = len(rows) - len(left)
            kept += left
        return KernelResult(
            group=task.group,
            parts=(self._write(task, kept),) if kept else (),
            rows_in=rows_in,
            rows_deleted=deleted,
            rows_removed=rows_in - deleted - len(kept),
            untouched=tuple(untouched),
            rows_hidden=hidden if task.only_touched else {},
        )

    def _users(self, task: KernelTask) -> frozenset[str]:
        if task.keys is None:
            return frozenset()
        return _users_of(self.store.get(task.keys.key))

    def _write(self, task: KernelTask, rows: list[Row]) -> WrittenPart:
        key = f"{task.data_prefix}{self.ids.uuid7(self.clock.now_ms())}.parquet"
        data = encode(rows, {**task.metadata, "firnline.rows": str(len(rows))})
        self.store.put_data(key, data)
        return WrittenPart(
            key=key,
            partition=task.partition,
            bytes=len(data),
            rows=len(rows),
            stats=stats_of(rows, task.stats_columns),
        )


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
