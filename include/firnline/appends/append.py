"""Appends: parts first, then one create-only log file for all partitions.

Without a lock and without conflicts (docs/format.md, "Appends"). The log file is the commit: before
it nothing of an append is visible, after it everything is.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from firnline.appends.claims import Claims
from firnline.appends.columns import KnownColumns
from firnline.appends.mirrored import MirrorOutcome
from firnline.appends.run import AppendRun, Origin
from firnline.appends.store_time import StoreTime
from firnline.commit import append_log as birth
from firnline.commit.base import take_base
from firnline.cores import other_cores
from firnline.errors import (
    ForeignPathError,
    ScratchFullError,
    SnapshotUnstableError,
    UsageError,
    some,
)
from firnline.log import dated
from firnline.log.keyed import Published
from firnline.log.reader import ATTEMPTS
from firnline.parquet.part import WrittenPart
from firnline.paths import UNNAMED, check_writer
from firnline.properties.in_force import from_settings
from firnline.properties.record import Properties
from firnline.rows.agree import refuse_strays
from firnline.rows.dictionaries import are_dictionaries, as_table
from firnline.rows.source import Checked, Rows, check_files, gather, read_files, tables_of
from firnline.settings.load import TableSettings
from firnline.shown import Shown
from firnline.state.health import lost
from firnline.table import Table
from firnline.types.formats import refusals
from firnline.types.schema import SchemaUnion
from firnline.units import about_size

_LOG = logging.getLogger(__name__)
_LEVELS = re.compile(r"(?:[^=/]+=[^/]+(?:/[^=/]+=[^/]+)*)?")
"""Partitions of a table whose settings do not say otherwise."""
Landed = tuple[str, int]
"""Key and time of the log file of an append."""
NOTHING = -1
"""Newest transaction of a table that has not even a birth record, which is number 0."""


class AppendProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an append of files."""

    files: int
    files_done: int
    """Files of which all rows were taken."""
    rows: int
    rows_done: int


@dataclass(frozen=True, slots=True, repr=False)
class AppendResult(Shown):
    """The result of an append."""

    append_id: str
    """UUIDv7."""
    log_key: str | None
    """Key of its log file; None if nothing was written, since there were no rows: unless the table
    is new and its settings name columns."""
    t: int
    """Time of the log file, unix ms; 0 without one."""
    q: int
    """Newest transaction of the table when the append began."""
    parts: tuple[WrittenPart, ...]
    rows: int
    bytes: int
    """Total size of the parts."""
    new_columns: dict[str, str]
    """SQL type by column, or by path of a field (``p.a``, ``items[].price``), of what the table did
    not have; none if it had no columns."""
    requests: dict[str, int]
    """Store requests and bytes of this append by kind (``store.base.Counters``)."""
    untyped: dict[str, int] = field(default_factory=dict)
    """Columns and fields that were left out because they hold only nulls and have no type yet ->
    number of their empty lists and dictionaries, which are null now."""
    mirror: MirrorOutcome | None = None
    """What became of the publication that it was asked for; None if it was not, or of no row."""
    repeated: bool = False
    """An append with the same key had been published before, at ``t``: nothing was added."""

    def _title(self) -> str:
        """Return what it is."""
        return "AppendResult"

    def _facts(self) -> Mapping[str, str]:
        """Return how much was written."""
        mirror = {} if self.mirror is None else {"mirror": self.mirror.said}
        if self.repeated:
            return {"rows": "0: an append with this key was there already", **mirror}
        return {
            "rows": f"{self.rows:,}",
            "parts": f"{len(self.parts):,}",
            "size": about_size(self.bytes),
            "log file": self.log_key or "none",
            **mirror,
        }


class Appender:
    """Appends to one table, repeatedly; not thread-safe.

    Requests per append: 1 LIST, a PUT per part, 1 PUT for the log file. The first append of an
    Appender also reads the table's columns: 1 LIST and one ranged GET per log file, and 1 ranged
    GET for its properties; for a new table 5 LIST, and 1 LIST and 1 PUT for the birth record. It
    reads them again, from new log files only, if a transaction was committed since or rows bring an
    unknown column.

    With a key 1 PUT more (``appends.claims``). A key that was used before costs 1 PUT and 1 GET,
    and those of ``take_base``, instead of the parts and the log file.

    Each time it reads them it refuses a lost log; an append in between is not refused, and a
    rebuild includes its log file.

    For a service with many small batches see ``firnline.appends.service``.

    Args:
        table: the table.
        writer: who writes: in the keys of the log files, and in what `firnline parts` and
            `firnline history` show; at most 128 of the letters a-z and A-Z, digits, ``.`` and
            ``-``.
        known_schema: SQL type by column, instead of reading them from the table.
        scratch: folder for temporary parts; None: the system's.
    """

    def __init__(
        self,
        table: Table,
        *,
        writer: str = UNNAMED,
        known_schema: Mapping[str, str] | None = None,
        scratch: Path | None = None,
    ) -> None:
        check_writer(writer)
        self._table = table
        self._writer = writer
        self._scratch = scratch
        self.columns = KnownColumns(table, known_schema)
        """Known columns of the table."""
        self._seq = 0
        self._born = False
        self._logged = 0
        """Newest transaction that a listing of the log has shown."""
        self._said: tuple[int, bool, Properties | None] | None = None
        """Transaction, birth record flag, and the table's properties as of them."""
        self._last_t = 0
        self._looked: int | None = None
        """``Clock.elapsed_ms`` from before the history was last listed."""
        self._store_time = StoreTime()

    def append(
        self,
        data: Rows,
        partition: str | None = None,
        metadata: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        agree: bool = True,
        new_columns: bool = True,
    ) -> AppendResult:
        """Append rows, atomically over all their partitions.

        A new column that a mirror of the table cannot have is a warning in the log.

        Memory: ``append.buffer`` for rows, and twice the part that is being sorted.

        Args:
            data: rows; columns in any order, new ones are added, missing ones are null. Of a list
                of dictionaries the values are cast to the table's types.
            partition: path of all rows, only for a table without ``partition_by``.
            metadata: more key-value pairs for the footers of the parts.
            key: name of these rows. If an append with the same key was published within
                ``append.once``, nothing is added (``repeated`` of the result), whatever the rows
                are; of tries at the same time one adds its rows.
            agree: refuse rows whose values are not those that the partition states for columns of
                its names (``rows.agree``).
            new_columns: False to refuse rows with columns, or fields of columns, that the table
                does not have.

        Raises:
            UsageError: partition, columns or settings do not match the table; a new column that is
                not wanted.
            PartSchemaError: columns or values that a part cannot hold.
            SchemaConflictError: a column has another type in the table.
            LogLostError: log files of the table are gone.
            AppendExpiredError: it took longer than ``append.ttl``.
            ClockAheadError: this machine's clock is known to be ahead of the store's.
            CommitUnknownError: it is not known whether the rows are in the table.
            StoreError, ScratchFullError: the store or the scratch folder failed.

            After any error but CommitUnknownError the table is unchanged and no part stays. For an
            interrupt (KeyboardInterrupt, SystemExit) ``commit.outputs`` defines what stays.
        """
        before = self._table.store.counters.as_dict()
        extra = _own_metadata(metadata or {})
        origin, union = self.knowing()
        table = self._table.under(origin.properties)
        where = check_partition(table, partition)
        claims = None if key is None else Claims(table, key, origin.writer, origin.id)
        earlier = None if claims is None else claims.first(self._date())
        if earlier is not None:
            return self._result(origin, earlier, before)
        read_again = partial(self.columns.look_again, origin.q)
        if are_dictionaries(data):
            data = as_table(data, union.columns)
        with scratch_folder(self._scratch) as folder:
            run = AppendRun(table, origin, union, where, folder, extra, read_again, new_columns)
            run.writer.waiting.tells = True
            run.writer.cores = other_cores()
            run.declared = self.columns.declared
            if agree and where:
                run.writer.check = partial(refuse_strays, partition=where)
            landed = self._execute(run, data, claims)
        if isinstance(landed, tuple):
            self.columns.published(landed[0], run.stated)
            _warn_of_refused(table, run.new_columns if union.columns else run.columns)
        return self._result(origin, landed, before, run)

    def _result(
        self,
        origin: Origin,
        landed: Landed | Published | None,
        before: Mapping[str, int],
        run: AppendRun | None = None,
    ) -> AppendResult:
        """Return the result of an append, or of one whose key another one has published."""
        log_key, t = landed if isinstance(landed, tuple) else (None, 0)
        done = run if log_key is not None else None
        after = self._table.store.counters.as_dict()
        return AppendResult(
            append_id=origin.id,
            log_key=log_key,
            t=landed.t if isinstance(landed, Published) else t,
            q=origin.q,
            parts=() if done is None else tuple(done.parts),
            rows=0 if done is None else sum(part.rows for part in done.parts),
            bytes=0 if done is None else sum(part.bytes for part in done.parts),
            new_columns={} if done is None else done.new_columns,
            untyped={} if done is None else done.untyped,
            requests={kind: after[kind] - before[kind] for kind in after},
            repeated=isinstance(landed, Published),
        )

    def append_files(
        self,
        paths: Sequence[Path],
        partition: str | None = None,
        *,
        key: str | None = None,
        new_columns: bool = True,
        on_progress: Callable[[AppendProgress], None] | None = None,
    ) -> AppendResult:
        """Append Parquet files as one append, in bounded memory.

        All footers are checked before anything is written.

        Args:
            paths: the files, each once.
            partition, key: as ``append``.
            new_columns: False to refuse files with a column that the table does not have.
            on_progress: called once the footers are checked, and after every batch of rows.

        Raises:
            UsageError: a file is not there, or named twice; a new column that is not wanted.
            PartUnreadableError: a file is truncated, encrypted, or not Parquet.
            PartSchemaError, SchemaConflictError: columns of a file do not fit; names the file.
            others: as ``append``.
        """
        checked = check_files(paths, self.columns.read())
        if not new_columns:
            self._refuse_new(checked)

        def tell(files: int, rows: int) -> None:
            if on_progress is not None:
                on_progress(
                    AppendProgress(
                        files=len(paths), files_done=files, rows=checked.rows, rows_done=rows
                    )
                )

        tell(0, 0)
        rows = read_files(paths, tell, other_cores())
        return self.append(rows, partition, key=key, new_columns=new_columns)

    def _refuse_new(self, checked: Checked) -> None:
        if not checked.new:
            return
        columns = sorted(checked.new)
        one = len(columns) == 1
        files = list(dict.fromkeys(map(str, checked.new.values())))
        raise UsageError(
            f"table {self._table.settings.name} has no {'column' if one else 'columns'} "
            f"{some(columns)}, and {' and '.join(files[:2])}"
            f"{' and others' if len(files) > 2 else ''} {'has' if len(files) == 1 else 'have'} "
            f"{'it' if one else 'them'}",
            next_step="correct the file, or leave --no-new-columns out; nothing was written"
            if len(files) == 1
            else "correct the files, or leave --no-new-columns out; nothing was written",
        )

    def _execute(
        self, run: AppendRun, data: Rows, claims: Claims | None
    ) -> Landed | Published | None:
        """Write and publish; return the log file, the append of the same key, or None without rows.

        Parts of rows that another try has published are deleted.
        """
        with run.new:
            for rows in gather(tables_of(data), run.chunk_bytes):
                run.add(rows)
            run.flush()
            if not run.parts and not run.declared:
                return None
            landed: Landed | Published
            if claims is not None:
                landed = claims.publish(run, self._date)
            else:
                t = self._date()
                landed = run.publish(t), t
            if isinstance(landed, Published):
                run.new.delete()
        if run.born:
            self._born, self._said = True, (0, True, from_settings(run.table.settings))
        return landed

    def _date(self) -> int:
        """Return the time for a log file, unix ms, later than that of the one before.

        Right before the log file, or its claim: a later as-of read must not change its answer.
        """
        now = self._table.clock.now_ms()
        # A clock that was corrected meanwhile counts from now on.
        t = max(now, self._last_t + 1) if self._last_t <= now + dated.FAR_MS else now
        self._store_time.refuse_ahead(t, self._table.clock.elapsed_ms())
        self._last_t = t
        return t

    def knowing(self) -> tuple[Origin, SchemaUnion]:
        """Return the origin, and columns that are neither older nor newer than its transaction.

        Only so is it clear which column a name meant, if a transaction has changed that column.
        Nothing is written yet, so an append may as well begin a little later.

        Requests: 1 LIST, and those of ``columns``; where ``_txn/`` has lost its newest transaction
        1 LIST more, and once those of ``take_base``.

        Raises as ``KnownColumns.read``.
        """
        for _ in range(ATTEMPTS):
            began, listed = self._list_history()
            gone = listed < self._seq
            union = (self.columns.look_again if gone else self.columns.read)(self._seq)
            if gone:
                self._trust_log()
                union = self.columns.read(self._seq)
            if self.columns.seq <= self._seq:
                return self._origin(began), union
            # Its object was there before its log file: the next listing shows it, or it is gone.
            self._logged = self.columns.seq
        raise SnapshotUnstableError(
            f"transactions of table {self._table.settings.name} were committed during each of "
            f"{ATTEMPTS} attempts to begin an append",
            next_step="append again when fewer runs maintain this table at the same time",
        )

    def _list_history(self) -> tuple[int, int]:
        """List ``_txn/``; return ``Clock.elapsed_ms`` from before it, and its newest transaction.

        Not ``_log/``, where a committed transaction may not be published yet. From the newest known
        transaction on, so that the listing shows whether that is still there; 0 is the birth
        record, -1 nothing at all.

        Requests: 1 LIST.
        """
        table = self._table
        began, newest = table.clock.elapsed_ms(), NOTHING
        after = table.paths.txn(self._seq - 1) if self._seq else None
        for meta in table.store.list(table.paths.txn_dir, after):
            newest = max(newest, table.paths.parse_txn(meta.key))
            if self._looked is not None and newest > self._seq:
                self._store_time.appeared(meta.modified_ms, self._looked)
            self._born = True
        self._looked = began
        self._seq = max(self._seq, newest, self._logged)
        return began, newest

    def _trust_log(self) -> None:
        """Take sequence and properties from the log: ``_txn/`` lacks what it has had.

        A delete whose object is gone must not hide rows that are appended after it, and a table
        without a birth record is not given the properties of somebody's settings.

        Requests: none if the log has nothing new either; else those of ``take_base``.

        Raises LogLostError: the log lacks it, too.
        """
        columns, seen = self.columns, self._said[0] if self._said is not None else None
        if (seen == columns.seq == self._seq) if columns.logged else not self._born:
            return
        base = take_base(self._table, tolerant=True)
        if base.seq < self._seq or not base.snapshot.listing:
            what = f"transaction {self._seq}" if self._seq else "the birth record"
            raise lost(
                self._table.paths,
                f"{what} was there when this process looked before, and now nothing there or "
                "under _txn/ is as new",
            )
        self._seq = base.seq
        self._said = (base.seq, self._born, base.properties)

    def _origin(self, began: int) -> Origin:
        """Assign the append's id and name. Requests: 1 GET for a new transaction."""
        table = self._table
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
        """Return the properties as of the newest transaction seen; 1 GET if it is a new one."""
        # Once each: a caller that checks rows asks beside the thread that lists the history.
        stated, seq, born = self._said, self._seq, self._born
        if stated is None or stated[:2] != (seq, born):
            self._said = stated = (seq, born, birth.said(self._table, seq, born=born))
        return stated[2]

    def in_force(self) -> TableSettings:
        """Return the settings in force for the table; requests as ``knowing`` the first time.

        Raises PropertiesDifferError, SettingsError.
        """
        if self._said is None:
            self.knowing()
        return self._table.under(self._properties()).settings


def _warn_of_refused(table: Table, columns: Mapping[str, str]) -> None:
    """Warn of new columns that stop a mirror: whoever appends is the first to know them."""
    for error in refusals(table.settings.mirrors, table.settings.name, columns):
        _LOG.warning("the mirror stays where it is: %s", error)


def check_partition(table: Table, partition: str | None) -> str:
    """Return the path of the rows; empty if the settings place each row. Raises UsageError."""
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
            f"partition {path!r} is not a partition of table {settings.name}, whose partitions "
            f"match {settings.partition}",
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
    if settings.partition is None and not _LEVELS.fullmatch(path):
        raise UsageError(
            f"partition {path!r} does not consist of NAME=VALUE",
            next_step="write it like year=2013/month=01; for another form state partition in the "
            "table's settings",
        )
    return path


@contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """Create a folder for temporary parts, deleted at the end. Raises ScratchFullError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="firnline-", dir=parent)
    except OSError as error:
        raise ScratchFullError(
            f"no folder for parts can be created in {parent or tempfile.gettempdir()}: "
            f"{error.strerror}",
            next_step="give a folder with space that this user can write to (TMPDIR)",
        ) from None
    with folder as path:
        yield Path(path)


def _own_metadata(metadata: Mapping[str, str]) -> Mapping[str, str]:
    for name in metadata:
        if name.startswith("firnline."):
            raise UsageError(
                f"footer metadata {name!r} is reserved", next_step="choose another name"
            )
    return metadata
