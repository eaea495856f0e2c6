"""Appends: parts first, then one create-only log file for all partitions.

No lock, never in conflict with anything (docs/format.md, "Appends"). The log file is the commit:
before it nothing of an append is visible, after it everything is.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from firnline.append.columns import KnownColumns
from firnline.append.run import AppendRun, Origin
from firnline.append.source import Rows, check_files, gather, read_files, tables_of
from firnline.append.store_time import StoreTime
from firnline.commit import birth
from firnline.errors import ForeignPathError, ScratchFullError, UsageError
from firnline.log import dated
from firnline.log.reader import ATTEMPTS
from firnline.parquet.part import WrittenPart
from firnline.properties.in_force import from_settings
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.table import Table
from firnline.types.schema import SchemaUnion


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What an append did."""

    append_id: str
    """UUIDv7."""
    log_key: str | None
    """Key of its log file; None when there were no rows and so nothing was written."""
    t: int
    """Time of the log file, unix milliseconds; 0 without one."""
    q: int
    """Newest transaction of the table when it began."""
    parts: tuple[WrittenPart, ...]
    rows: int
    bytes: int
    """Of the parts."""
    requests: dict[str, int]
    """Store requests and bytes of this append by kind (``store.base.Counters``)."""


class Appender:
    """Appends to one table, again and again; not for several threads at once.

    Requests per append: 1 LIST, a PUT per part, 1 PUT for the log file. The first append of an
    Appender reads the table's columns besides: 1 LIST and one ranged GET per log file, and 1 ranged
    GET for its properties; of a new table 5 LIST, and 1 LIST and 1 PUT for the birth record. It
    looks again, at new log files only, when a transaction was committed since or rows bring a
    column that is not known.

    Whenever it looks it refuses a log that is lost; an append between two looks is not refused, and
    a rebuild takes its log file in.

    For a service with many small batches see ``firnline.append.service``.

    Args:
        table: the table.
        writer: beginning of the name in the log files' keys; letters, digits, ``.`` and ``-``.
        known_schema: column -> SQL type, instead of reading them from the table.
        scratch: folder for parts on their way; None: the system's.
    """

    def __init__(
        self,
        table: Table,
        *,
        writer: str = "firnline",
        known_schema: Mapping[str, str] | None = None,
        scratch: Path | None = None,
    ) -> None:
        table.paths.append_log(0, writer)  # raises UsageError for a name that cannot be
        self._table = table
        self._writer = writer
        self._scratch = scratch
        self.columns = KnownColumns(table, known_schema)
        """What is known of the table's columns."""
        self._seq = 0
        self._born = False
        self._said: tuple[int, bool, Properties | None] | None = None
        """Transaction, birth record, and what they say of the table's properties."""
        self._last_t = 0
        self._looked: int | None = None
        """``Clock.elapsed_ms`` from before the last look at the history."""
        self._store_time = StoreTime()

    def append(
        self,
        data: Rows,
        partition: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AppendResult:
        """Append rows, atomically over all their partitions.

        Memory: ``append.buffer`` for rows, and twice the part that is being sorted.

        Args:
            data: rows; their columns in any order, new ones welcome, missing ones are null.
            partition: path of all rows, only for a table without ``partition_by``.
            metadata: more key-value pairs for the footers of the parts.

        Raises:
            UsageError: partition, columns or settings do not go with the table.
            PartSchemaError: columns or values that a part cannot hold.
            SchemaConflictError: a column has another type in the table.
            LogLostError: log files of the table are gone.
            AppendExpiredError: it took longer than ``append.ttl``.
            ClockAheadError: this machine's clock is ahead of the store's, as far as is known.
            CommitUnknownError: nobody can say whether the rows are in the table.
            StoreError, ScratchFullError: as they say.

        After any error but CommitUnknownError the table is as it was and no part stays. Of an
        interrupt (KeyboardInterrupt, SystemExit) ``commit.outputs`` says what stays.
        """
        before = self._table.store.counters.as_dict()
        extra = _own_metadata(metadata or {})
        origin, known = self.knowing()
        table = self._table.under(origin.properties)
        where = check_partition(table, partition)
        anew = partial(self.columns.look_again, origin.q)
        with scratch_folder(self._scratch) as folder:
            run = AppendRun(table, origin, known, where, folder, extra, anew)
            log_key, t = self._execute(run, data)
        if log_key is not None:
            self.columns.published(log_key, run.columns)
        after = self._table.store.counters.as_dict()
        return AppendResult(
            append_id=origin.id,
            log_key=log_key,
            t=t,
            q=origin.q,
            parts=tuple(run.parts),
            rows=sum(part.rows for part in run.parts),
            bytes=sum(part.bytes for part in run.parts),
            requests={kind: after[kind] - before[kind] for kind in after},
        )

    def append_files(self, paths: Sequence[Path], partition: str | None = None) -> AppendResult:
        """Append Parquet files as one append, in bounded memory.

        All footers are looked at before anything is written.

        Raises:
            PartUnreadableError: a file that is not there, cut, encrypted, or no Parquet.
            PartSchemaError, SchemaConflictError: a file whose columns do not fit; names it.
            others: as ``append``.
        """
        check_files(paths, self.columns.read())
        return self.append(read_files(paths), partition)

    def _execute(self, run: AppendRun, data: Rows) -> tuple[str | None, int]:
        """Write and publish; (key of the log file, its time), (None, 0) without rows."""
        with run.new:
            for rows in gather(tables_of(data), run.buffer.chunk_bytes):
                run.add(rows)
            run.flush()
            if not run.parts:
                return None, 0
            # Right before the log file: an as-of read must not change its answer later.
            now = self._table.clock.now_ms()
            # A clock that was set right meanwhile counts from now on.
            t = max(now, self._last_t + 1) if self._last_t <= now + dated.FAR_MS else now
            self._store_time.refuse_ahead(t, self._table.clock.elapsed_ms())
            log_key = run.publish(t)
        self._last_t = t
        if run.born:
            self._born, self._said = True, (0, True, from_settings(run.table.settings))
        return log_key, t

    def knowing(self) -> tuple[Origin, SchemaUnion]:
        """The beginning, and columns that are neither older nor newer than its transaction.

        By that alone anybody can tell which column a name meant that a transaction has changed.
        Nothing is written yet, so an append may as well begin a little later.

        Requests: 1 LIST, and those of ``columns``. Raises as ``KnownColumns.read``.
        """
        origin = self._begin()
        known = self.columns.read(origin.q)  # a transaction may have changed a type
        for _ in range(ATTEMPTS):
            if self.columns.seq <= origin.q:
                break
            origin = self._begin()
            known = self.columns.read(origin.q)
        return origin, known

    def _begin(self) -> Origin:
        """Read the newest transaction from the history and give the append its names."""
        table = self._table
        began = table.clock.elapsed_ms()
        # Not from _log/, where a committed transaction may not be published yet.
        after = table.paths.txn(self._seq) if self._seq else None
        for meta in table.store.list(table.paths.txn_dir, after):
            seq = table.paths.parse_txn(meta.key)
            if self._looked is not None and seq > self._seq:
                self._store_time.appeared(meta.modified_ms, self._looked)
            self._seq = max(self._seq, seq)
            self._born = True
        self._looked = began
        properties = self._properties()
        now = table.clock.now_ms()
        append_id = table.ids.uuid7(now)
        return Origin(
            append_id,
            f"{self._writer}-{append_id}",
            self._seq,
            began,
            now,
            properties,
            birth.begins(table, self._seq, born=self._born),
        )

    def _properties(self) -> Properties | None:
        """Of the newest transaction that was seen; 1 GET when it is another than before."""
        if self._said is None or self._said[:2] != (self._seq, self._born):
            found = birth.said(self._table, self._seq, born=self._born)
            self._said = (self._seq, self._born, found)
        return self._said[2]

    def in_force(self) -> TableSettings:
        """Return the settings as the table has them; requests as ``knowing`` the first time.

        Raises PropertiesDifferError, SettingsError.
        """
        if self._said is None:
            self._begin()
        return self._table.under(self._properties()).settings


def check_partition(table: Table, partition: str | None) -> str:
    """The path that rows go to; empty where the settings place each row. Raises UsageError."""
    settings, paths = table.settings, table.paths
    if settings.partition_by:
        if partition is not None:
            raise UsageError(
                f"table {settings.name} takes partitions from "
                f"{', '.join(map(str, settings.partition_by))}",
                next_step="leave the partition out",
            )
        return ""
    path = partition or ""
    if settings.partition is not None and not re.fullmatch(settings.partition, path):
        raise UsageError(
            f"partition {path!r} is none of table {settings.name}, whose partitions match "
            f"{settings.partition}",
            next_step="name a partition of this form",
        )
    try:
        paths.check_part(paths.data_part(path, "part"))
        path.encode()
    except (ForeignPathError, UnicodeEncodeError):
        raise UsageError(
            f"partition {path!r} is not a path under the table",
            next_step="write it like year=2013/month=01",
        ) from None
    return path


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A folder for parts on their way, deleted at the end. Raises ScratchFullError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="firnline-", dir=parent)
    except OSError as error:
        raise ScratchFullError(
            f"no folder for parts can be made in {parent or tempfile.gettempdir()}: "
            f"{error.strerror}",
            next_step="give a folder with space that this user can write to (TMPDIR)",
        ) from None
    with folder as path:
        yield Path(path)


def _own_metadata(metadata: Mapping[str, str]) -> Mapping[str, str]:
    for name in metadata:
        if name.startswith("firnline."):
            raise UsageError(
                f"footer metadata {name!r} is firnline's own", next_step="choose another name"
            )
    return metadata
