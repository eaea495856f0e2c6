"""The schema of a table from the lines of its log files (docs/format.md, "Snapshot")."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from firnline.errors import SchemaConflictError
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, Marker
from firnline.log.schema_changes import SchemaChange, line_now
from firnline.paths import LogName
from firnline.types import schema as schemas


def standing(log: LogRead) -> list[str]:
    """Return the log files whose schema line counts, by name: those that no transaction folded.

    A transaction carries the columns of the log files that it folds, or restates them in a repair
    of the schema, so their lines no longer count. As in ``read_log``, folds of foreign clients
    are ignored.
    """
    read = log.contents
    return sorted(read.keys() - folded_by_ours(log))


def folded_by_ours(log: LogRead) -> set[str]:
    """Return the log files that transactions of the reading have folded."""
    read = log.contents
    ours = (key for key, item in log.listing.items() if item.name.seq and key in read)
    return {tombstone.p for key in ours for tombstone in read[key].tombstones}


def newest_before(times: Sequence[tuple[int, int]], t: int) -> int:
    """Return the sequence number of the newest transaction before a time; 0 if there is none.

    Args:
        times: (t, seq) of the known transactions, sorted.
        t: unix milliseconds.
    """
    index = bisect_left(times, (t, 0))
    return times[index - 1][1] if index else 0


def line_sequence(name: LogName, first: int | None, times: Sequence[tuple[int, int]]) -> int:
    """Return the newest transaction that the writer of a log file's schema line had seen.

    For a transaction it is itself, since its line includes its own changes. All parts of an append
    have the same sequence; a client of version 1 states none, in an append or in a merge.

    Args:
        name: of the log file.
        first: sequence of the first part that it names.
        times: (t, seq) of the known transactions, sorted.
    """
    if name.seq:
        return name.seq
    if first is None or name.kind != "append":
        return newest_before(times, name.t)
    return first


def first_sequence(markers: Sequence[Marker]) -> int | None:
    """Return the data sequence of the first marker of a log file; None if unknown."""
    return markers[0].q if markers else None


def lines_of(
    log: LogRead, changes: Sequence[SchemaChange], times: Sequence[tuple[int, int]]
) -> list[tuple[str, Mapping[str, str]]]:
    """Return (log file, its schema line after all changes) of those that count, by name."""
    lines: list[tuple[str, Mapping[str, str]]] = []
    for key in standing(log):
        content, line = log.contents[key], log.contents[key].schema
        if changes:
            q = line_sequence(log.listing[key].name, first_sequence(content.markers), times)
            line = dict(line_now(changes, line, q))
        lines.append((key, line))
    if log.checkpoint is None:
        return lines
    # A checkpoint holds the lines after the changes up to its own sequence.
    seq, covered = log.checkpoint.head.seq, log.checkpoint.schema_lines(folded_by_ours(log))
    lines += [(key, line_now(changes, line, seq) if changes else line) for key, line in covered]
    return sorted(lines, key=lambda line: line[0])


def schema_of(
    log: LogRead,
    changes: Sequence[SchemaChange],
    times: Sequence[tuple[int, int]],
    *,
    tolerant: bool,
) -> tuple[dict[str, str], SchemaConflictError | None]:
    """Return the union of the lines that count, and the conflict between them, if any.

    Args:
        log: the log files.
        changes: of the schema, by sequence.
        times: (t, seq) of the known transactions, sorted.
        tolerant: on a conflict return the columns they agree on, instead of raising.

    Raises SchemaConflictError unless ``tolerant``.
    """
    lines = lines_of(log, changes, times)
    try:
        return schemas.union(lines), None
    except SchemaConflictError as error:
        if not tolerant:
            raise
        return schemas.agreed(lines), error


def times_of(
    listing: Mapping[str, LogObject], deletes: Iterable[Delete]
) -> tuple[tuple[int, int], ...]:
    """Return (t, seq) of the known transactions, sorted."""
    times = {(item.name.t, item.name.seq) for item in listing.values() if item.name.seq}
    # A delete carries seq and t of its transaction, whose log file may be folded and gone.
    times.update((d.t, d.seq) for d in deletes)
    return tuple(sorted(times))
