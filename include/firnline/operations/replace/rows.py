"""Read the new rows of a replace in bounded memory, and write them as parts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa

from firnline.append.append import check_partition
from firnline.append.run import AppendRun, Origin
from firnline.append.source import check_files, gather, read_files
from firnline.commit.base import Base
from firnline.commit.change import Change
from firnline.errors import (
    FirnlineError,
    ObjectNotFoundError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    UsageError,
)
from firnline.kernel.convert import RowCheck, row_check
from firnline.log.records import Marker, stats_json
from firnline.operations.replace.plan import Span
from firnline.parquet.part import WrittenPart
from firnline.paths import Root
from firnline.predicate.tree import to_sql
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.schema import SchemaUnion

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse


_LOG = logging.getLogger(__name__)
OP = "replace"


@dataclass(frozen=True, slots=True)
class NewRows:
    """Parts with the new rows, uploaded and not visible yet.

    A caller that writes them elsewhere (executors of Spark) guarantees that every row lies in the
    interval, and that the parts are younger than the replace that is to commit them.
    """

    parts: tuple[WrittenPart, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of all parts, column -> SQL type."""
    delete: str = ""
    """Id of the delete record that their footers name; empty: none was chosen."""
    since: int = 0
    """Newest transaction of the table when the writing of the parts began."""

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.bytes for part in self.parts)

    def markers(self) -> tuple[Marker, ...]:
        """Markers without ``q``: the transaction that brings them sets its own sequence there."""
        return tuple(
            Marker(p=part.key, b=part.bytes, t=0, n=part.rows, s=stats_json(part.stats))
            for part in self.parts
        )

    def added_to(self, change: Change) -> Change:
        """Return the change with these parts added."""
        counts = change.counts
        return replace(
            change,
            adds=(*change.adds, *self.markers()),
            columns=self.columns,
            partitions=tuple(sorted({*change.partitions, *(p.partition for p in self.parts)})),
            counts=msgspec.structs.replace(
                counts,
                parts_out=counts.parts_out + len(self.parts),
                rows_out=counts.rows_out + self.rows,
                rows_added=self.rows,
                bytes_out=counts.bytes_out + self.bytes,
            ),
        )

    def refuse_old_names(self, snapshot: Snapshot) -> None:
        """Raise SchemaConflictError where another run renamed or dropped a column of the rows.

        They are above every record, so under the old name they would be another column.
        """
        for change in snapshot.changes:
            gone = [c for c in (*change.what.rename, *change.what.drop) if c in self.columns]
            if change.seq > self.since and gone:
                raise SchemaConflictError(
                    f"transaction {change.seq} renamed or dropped column {gone[0]!r} of the new "
                    "rows while they were written",
                    next_step="give the rows the table's columns and run it again",
                )

    @property
    def keys(self) -> list[str]:
        """Keys of the parts."""
        return [part.key for part in self.parts]


@dataclass(frozen=True, slots=True)
class NewParts:
    """Writes the new parts of one replace.

    Args:
        table: the table.
        base: its state when the replace began.
        span: where all rows have to lie.
        delete: id of the record that is to hide the old rows; it does not apply to these.
        scratch: folder for files on their way.
        partition: of all rows, when the table has no partition fields.
    """

    table: Table
    base: Base
    span: Span
    delete: str
    scratch: Path
    partition: str | None = None

    def write(self, tables: Iterable[pa.Table]) -> NewRows:
        """Check and write all rows; none are an error.

        Requests: one PUT per part (more for large ones). Memory: as an append.

        Raises:
            UsageError: a row outside of the interval; no row; columns that do not go with the
                settings.
            PartSchemaError, SchemaConflictError, StoreError, ScratchFullError: as an append.

        After any error no part stays.
        """
        with row_check(self.scratch) as check:
            run = self._run(check)
            with run.new:
                for rows in gather(tables, run.buffer.chunk_bytes):
                    run.add(rows)
                run.flush()
                if not run.parts:
                    raise UsageError(
                        "the rows to replace with are none",
                        next_step="to empty the interval ask for nothing (--nothing)",
                    )
        return NewRows(tuple(run.parts), dict(run.columns), since=self.base.seq)

    def _run(self, check: RowCheck) -> AppendRun:
        table = self.table
        known = SchemaUnion()
        known.add("the table", self.base.snapshot.schema)
        now = table.clock.now_ms()
        run = AppendRun(
            table,
            # No append id: a rebuild of the log must not take them for an append's.
            Origin("", OP, self.base.seq, self.base.began_ms, now),
            known,
            check_partition(table, self.partition),
            self.scratch,
            {"firnline.d": msgspec.json.encode([self.delete]).decode()},
        )
        run.check = lambda rows: self._refuse_others(check, rows, run.known.columns)
        return run

    def _refuse_others(self, check: RowCheck, rows: pa.Table, columns: Mapping[str, str]) -> None:
        span = self.span.bound(columns)
        for column in span.columns:
            if column not in rows.column_names:
                raise UsageError(
                    f"the new rows have no column {column!r}, so they do not lie in {span}",
                    next_step="add the column; nothing was changed",
                )
        condition = to_sql(span.predicate(columns), columns)
        count, values = check.breaking(rows, condition, span.columns)
        if count:
            has = ", ".join(f"{c} = {v}" for c, v in zip(span.columns, values, strict=True))
            raise UsageError(
                f"{count:,} of {rows.num_rows:,} new rows do not lie in {span}; the first has "
                f"{has}",
                next_step="leave them out or widen the interval; nothing was changed",
            )


# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse


_ENDING = ".parquet"
_ABOUT_A_FILE = (PartUnreadableError, PartSchemaError, SchemaConflictError)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One Parquet file with new rows."""

    name: str
    """Path or URL, for display."""
    bytes: int
    path: Path | None = None
    """Path on this machine."""
    key: str | None = None
    """Key in the bucket of the table."""


def staged_files(table: Table, sources: Sequence[str]) -> tuple[StagedFile, ...]:
    """Return the Parquet files that paths and URLs mean, in the order of their names.

    A folder or prefix means all ``.parquet`` below it, but for what begins with ``_`` or ``.``:
    Spark and others leave half-written files there.

    Requests: a LIST (per 1,000 objects) for each URL of the bucket.

    Args:
        table: its store is where URLs are looked up.
        sources: local paths, ``file://``, or URLs in the bucket of the table.

    Raises:
        UsageError: another bucket, nothing there, or no Parquet file below it.
    """
    found: dict[str, StagedFile] = {}
    for source in sources:
        files = _listed(table, source)
        if not files:
            raise UsageError(
                f"no Parquet file is at or below {source}",
                next_step="correct the name; to empty the interval ask for nothing (--nothing)",
            )
        found.update((file.name, file) for file in files)
    return tuple(found[name] for name in sorted(found))


def read_staged(
    files: Sequence[StagedFile], table: Table, known: SchemaUnion, scratch: Path
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the files, one file after the other, a batch at a time.

    Footers of local files are all looked at first. Of a file in the bucket there is one copy in
    ``scratch`` while it is read: one GET each (more for large ones).

    Args:
        files: what to read.
        table: its store is where keys are read from.
        known: the table's columns.
        scratch: folder for copies.

    Raises:
        PartUnreadableError, PartSchemaError, SchemaConflictError: name the file.
        ObjectNotFoundError: a file was deleted meanwhile.
    """
    here = [file.path for file in files if file.path is not None]
    if here:
        check_files(here, known)
    for file in files:
        if file.path is not None:
            yield from read_files([file.path])
        else:
            yield from _copied(file, table, known, scratch)


def _copied(
    file: StagedFile, table: Table, known: SchemaUnion, scratch: Path
) -> Iterator[pa.RecordBatch]:
    assert file.key is not None  # a file has a path or a key
    copy = scratch / "staged.parquet"
    try:
        table.store.get_file(file.key, copy)
        check_files([copy], known)
        yield from read_files([copy])
    except ObjectNotFoundError:
        raise UsageError(
            f"{file.name} was deleted while it was wanted", next_step="stage the rows again"
        ) from None
    except _ABOUT_A_FILE as error:
        raise _renamed(error, copy, file.name) from None
    finally:
        copy.unlink(missing_ok=True)


def _renamed(error: FirnlineError, copy: Path, name: str) -> FirnlineError:
    """Return the same error with the name of the file instead of its copy."""
    return type(error)(error.message.replace(str(copy), name), next_step=error.next_step)


def _listed(table: Table, source: str) -> list[StagedFile]:
    root, parts = Root.parse(table.settings.root), urlsplit(source)
    if parts.scheme in {"", "file"}:
        return _local(Path(parts.path if parts.scheme else source))
    if (parts.scheme, parts.netloc) != (root.scheme, root.bucket):
        raise UsageError(
            f"{source} is not in {root.scheme}://{root.bucket}, where the table is",
            next_step="stage the rows there, or on this machine",
        )
    prefix = parts.path.lstrip("/")
    folder, before = prefix.rstrip("/") + "/", f"{root.scheme}://{root.bucket}/"
    return [
        StagedFile(before + meta.key, meta.size, key=meta.key)
        for meta in table.store.list(prefix)
        if meta.key == prefix
        or (meta.key.startswith(folder) and _is_wanted(meta.key.removeprefix(folder)))
    ]


def _local(path: Path) -> list[StagedFile]:
    if not path.is_dir():
        # A missing file is reported, with all others, when its footer is read.
        size = path.stat().st_size if path.is_file() else 0
        return [StagedFile(str(path), size, path=path)]
    return [
        StagedFile(str(file), file.stat().st_size, path=file)
        for file in sorted(path.rglob(f"*{_ENDING}"))
        if file.is_file() and _is_wanted(str(file.relative_to(path)))
    ]


def _is_wanted(below: str) -> bool:
    return below.endswith(_ENDING) and not any(
        segment.startswith(("_", ".")) for segment in PurePosixPath(below).parts
    )
