"""Appends for services: rows arrive one by one or in batches, and are written as parts in between.

An open buffer takes rows until it has enough of them, or until its first row has waited long
enough. It is then frozen, sorted and persisted by one background thread: parts first, then one log
file that makes all its partitions visible at once. That log file acknowledges its rows; a process
that dies loses only unacknowledged rows, and never writes one twice.

    with Appender("flights") as appender:
        ack = appender.append({"id": 1, "carrier": "UA"})
        ...
        ack.result()      # the row is in the table, for every reader

An append begins when its buffer is frozen: the newest transaction (``q``) is read then and not when
the first row arrived. A delete that commits while rows wait does not hide them: they were not in
the table yet, and a caller who saw the delete succeed may have added them since. So no buffer is
ever too old for ``append.ttl``.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self, TypedDict

from firnline.appends import append
from firnline.appends.append import AppendResult
from firnline.appends.buffer import Ack, Bounds, Buffer
from firnline.appends.intake import Call, Given, RowValidator, is_stream, take_rows
from firnline.arguments import typed
from firnline.errors import AppenderFullError, FirnlineError, FlushFailedError, UsageError
from firnline.locks import lock_and_condition
from firnline.paths import UNNAMED
from firnline.settings.load import find_table
from firnline.shown import Shown
from firnline.table import Table, open_table
from firnline.units import counted

__all__ = ["Ack", "AppendResult", "Appender"]


class Limits(TypedDict, total=False):
    """What may be given to an ``Appender`` besides its table."""

    max_rows: int | None
    max_bytes: int | None
    max_age_ms: int | None
    max_frozen: int | None
    max_wait_ms: int | None
    writer: str
    partition: str | None


class Appender(Shown):
    """Takes rows from any number of threads and writes them in the background.

    Every call of ``append`` is atomic: its rows are in one log file. The order of the calls is the
    order of insertion. Limits that are not given are those of the settings (``append.service``).

    Memory: ``max_bytes`` times (``max_frozen`` + 1), and twice the part that is being sorted; rows
    given as dictionaries need about ten times their size until 8,192 of them are collected.

    Requests per flush: 1 LIST, a PUT per part, 1 PUT for the log file; in addition, once and after
    a transaction or a new column, those of ``appends.columns.KnownColumns``.

    Args:
        target: name of a table in the settings, its root URL, or an open table (for example one
            with credentials of its own: ``firnline.table.open_table``).
        max_rows: maximum rows of the open buffer.
        max_bytes: maximum bytes of the open buffer, in Arrow's size.
        max_age_ms: milliseconds that the first row of the open buffer waits at most.
        max_frozen: maximum number of buffers that wait or are being written.
        max_wait_ms: milliseconds that ``append`` waits for other calls: for room when that many
            exist, and for the table's columns while another call reads them. 0 refuses at once,
            None waits without a limit. Measured by this machine's clock.
        writer: as of ``firnline.appends.append.Appender``.
        partition: path of all rows, only for a table without ``partition_by``.

    Raises UsageError, SettingsError, StoreAccessError for an invalid table.
    """

    @typed
    def __init__(
        self,
        target: Table | str,
        *,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        max_age_ms: int | None = None,
        max_frozen: int | None = None,
        max_wait_ms: int | None = None,
        writer: str = UNNAMED,
        partition: str | None = None,
    ) -> None:
        table = opened(target)
        given = {"rows": max_rows, "bytes": max_bytes, "age_ms": max_age_ms, "frozen": max_frozen}
        self._bounds = _bounds(table, given)
        self._max_wait_ms = max_wait_ms
        self._table = table
        self._writer = append.Appender(table, writer=writer)
        append.check_partition(table, partition)
        self._partition = partition
        self._validator = RowValidator(self._writer, self._waiting_columns)
        self._lock, self._changed = lock_and_condition()
        self._open: Buffer | None = None
        self._frozen: deque[Buffer] = deque()
        """The first one is being written."""
        self._failed: list[Ack] = []
        self._reading = False
        """A call reads the table's columns, without the lock."""
        self._closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="firnline-appender", daemon=True)
        self._thread.start()

    def append(self, rows: Given) -> Ack:
        """Add rows; they are written later.

        Args:
            rows: one dictionary (column -> value), a list of them, a pyarrow RecordBatch or Table,
                or anything else that ``rows.source`` takes. Columns may come in any order, be
                new, or be missing (null).

        Returns:
            A future that is done once these rows are visible to every reader.

        Raises:
            PartSchemaError, SchemaConflictError, UsageError: these rows do not fit; none of them
                was taken, and rows of other callers are not affected.
            AppenderFullError: no room within ``max_wait_ms``; nothing of a stream was read.
            FlushFailedError: rows of an earlier call were not written, and no caller has received
                that error yet; none of these rows was taken.
        """
        deadline = None
        if self._max_wait_ms is not None:
            deadline = self._table.clock.elapsed_ms() + self._max_wait_ms
        if stream := is_stream(rows):
            with self._lock:
                self._refuse(deadline)
        call = take_rows(rows)  # without the lock: a stream gives its rows when it has them
        with self._lock:
            put = self._taken(call) if stream else self._checked(call, deadline)
            if self._open is None:
                self._open = Buffer(self._table.clock.elapsed_ms())
                self._changed.notify_all()
            buffer = self._open
            put(buffer)
            if buffer.full(self._bounds) and len(self._frozen) < self._bounds.frozen:
                self._freeze()
            return buffer.ack

    def flush(self) -> tuple[AppendResult, ...]:
        """Write all rows taken before this call, and wait for it.

        Returns the results of the flushes that it waited for.

        Raises:
            FlushFailedError: some rows were not written; its cause is the reason.
        """
        with self._lock:
            self._usable()
            if self._open is not None:
                self._make_room(None, anything=True)
                self._freeze()
            acks = [buffer.ack for buffer in self._frozen]
        wait(acks)
        with self._lock:
            self._raise_unreported()
        return tuple(ack.result() for ack in acks)

    def close(self) -> None:
        """Write the remaining rows and close; a second call does nothing. Raises as ``flush``."""
        with self._lock:
            if self._closed:
                return
        try:
            self.flush()
        finally:
            with self._lock:
                self._closed = True
                self._changed.notify_all()
            if self._process == os.getpid():
                self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _title(self) -> str:
        """Return to which table it appends."""
        return f"Appender to {self._table.settings.name}"

    def _facts(self) -> Mapping[str, str]:
        """Return what waits; of a moment ago if other threads append."""
        waiting, frozen = self._open, len(self._frozen)
        return {
            "state": "closed" if self._closed else "open",
            "waiting": counted(waiting.rows if waiting else 0, "row"),
            "being written": counted(frozen, "buffer"),
        }

    def _usable(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                "this Appender was made before the process forked, and its thread is in the parent",
                next_step="make an Appender in each process",
            )
        if self._closed:
            raise UsageError("this Appender is closed", next_step="make a new one")

    def _raise_unreported(self) -> None:
        """Raise the first failure that no caller has received."""
        failed, self._failed = [ack for ack in self._failed if not ack.reported], []
        if not failed:
            return
        causes = [ack.exception() for ack in failed]
        reason, step = repr(causes[0]), "append them again"
        if not isinstance(causes[0], Exception):  # an interrupt: it is not known what was written
            step = "check which of them are in the table before you append them again"
        if isinstance(causes[0], FirnlineError):
            reason, step = causes[0].message, causes[0].next_step
        flushes = "a flush" if len(failed) == 1 else f"{len(failed)} flushes"
        raise FlushFailedError(
            f"{flushes} of rows given to this Appender earlier failed: {reason}", next_step=step
        ) from causes[0]

    def _refuse(self, deadline: int | None) -> None:
        """Raise what keeps a call from being taken; wait for room. Called with the lock."""
        self._usable()
        self._raise_unreported()
        self._make_room(deadline)

    def _checked(self, call: Call, deadline: int | None) -> Callable[[Buffer], None]:
        """Check rows; return what adds them to the open buffer. Called with the lock."""
        while True:
            self._refuse(deadline)
            if (put := self._validator.look(call, self._open)) is not None:
                return put
            self._read_columns(call, deadline)

    def _taken(self, call: Call) -> Callable[[Buffer], None]:
        """As ``_checked`` for rows of a stream, which were read and are in memory.

        They are taken even if the buffer has become full meanwhile: the caller cannot give them
        again.
        """
        while True:
            self._usable()
            if (put := self._validator.look(call, self._open)) is not None:
                return put
            self._read_columns(call, None)

    def _read_columns(self, call: Call, deadline: int | None) -> None:
        """Read the table's columns without the lock, or wait until another call has read them."""
        if self._reading:
            self._wait(
                deadline,
                f"another call reads the columns of table {self._table.settings.name}",
                "try again later, or increase max_wait_ms",
            )
            return
        self._reading = True
        try:
            with self._unlocked():
                take = self._validator.read(call)
            take()
        finally:
            self._reading = False
            self._changed.notify_all()

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        """Release the lock for a while."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _make_room(self, deadline: int | None, *, anything: bool = False) -> None:
        """Wait until the open buffer accepts rows, or (``anything``) until it can be frozen."""
        while self._open is not None and (anything or self._open.full(self._bounds)):
            if len(self._frozen) < self._bounds.frozen:
                if not anything:
                    self._freeze()
                return
            self._wait(
                deadline,
                f"{len(self._frozen)} buffers of table {self._table.settings.name} are being "
                "written, and the open one is full",
                "try again later, or increase max_frozen or max_wait_ms",
            )

    def _wait(self, deadline: int | None, why: str, next_step: str) -> None:
        """Wait for a change until ``deadline`` (``Clock.elapsed_ms``; None: without a limit).

        Raises AppenderFullError after it; UsageError if the Appender was closed meanwhile.
        """
        left = None if deadline is None else deadline - self._table.clock.elapsed_ms()
        if left is not None and left <= 0:
            raise AppenderFullError(why, next_step=next_step)
        self._changed.wait(None if left is None else left / 1000)
        self._usable()

    def _freeze(self) -> None:
        if self._open is not None:
            self._frozen.append(self._open)
            self._open = None
            self._changed.notify_all()

    def _waiting_columns(self) -> Iterator[Mapping[str, str]]:
        for buffer in (*self._frozen, *((self._open,) if self._open is not None else ())):
            yield dict(buffer.columns)  # the first of them is being written, and converted for it

    def _work(self) -> None:
        """Write one buffer after another; run by the background thread."""
        while (buffer := self._next()) is not None:
            try:
                result = self._writer.append(_batches(buffer), self._partition)
            except BaseException as error:  # noqa: BLE001 - the callers receive every error
                self._end(buffer, error)
                buffer.ack.set_exception(error)
            else:
                result = replace(result, untyped=buffer.waiting.told(buffer.columns))
                self._end(buffer, None)
                buffer.ack.set_result(result)
                self._written(result)

    def _written(self, result: AppendResult) -> None:
        """Take note of a flush that is acknowledged, in the background thread; raises nothing."""

    def _end(self, buffer: Buffer, error: BaseException | None) -> None:
        with self._lock:
            if error is not None:
                self._failed.append(buffer.ack)
                self._validator.forget()
            self._frozen.popleft()
            self._changed.notify_all()

    def _next(self) -> Buffer | None:
        """Wait for the next buffer to write and return it; None after ``close``."""
        with self._lock:
            while True:
                if self._frozen:
                    return self._frozen[0]
                if self._closed:
                    return None
                left = None
                if self._open is not None:
                    # It was full before if all places were taken at its last row.
                    left = self._open.due_in(self._bounds, self._table.clock.elapsed_ms())
                    if left <= 0 or self._open.full(self._bounds):
                        self._freeze()
                        continue
                self._changed.wait(None if left is None else left / 1000)


def opened(target: Table | str) -> Table:
    """Return a table that is given by its name, its root URL, or as itself; no request is sent.

    Raises UsageError, SettingsError, StoreAccessError.
    """
    return target if isinstance(target, Table) else open_table(find_table(target))


def _bounds(table: Table, given: Mapping[str, int | None]) -> Bounds:
    policy = table.settings.append.service
    usual = {
        "rows": policy.rows,
        "bytes": policy.bytes,
        "age_ms": policy.age,
        "frozen": policy.frozen,
    }
    for name, value in given.items():
        if value is not None and value < 1:
            raise UsageError(f"max_{name} is {value}", next_step="give at least 1")
    return Bounds(**usual | {name: n for name, n in given.items() if n is not None})


def _batches(buffer: Buffer) -> Iterator[object]:
    for table in buffer.freeze():
        yield from table.to_batches()
