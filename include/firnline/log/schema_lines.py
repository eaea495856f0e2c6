"""The schema of a table from the lines of its log files (docs/format.md, "Snapshot")."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from firnline.errors import SchemaConflictError
from firnline.log.reader import LogRead
from firnline.log.records import Marker
from firnline.log.schema_changes import SchemaChange, line_now
from firnline.paths import LogName
from firnline.types import schema as schemas


def standing(log: LogRead) -> list[str]:
    """Log files whose schema line counts, by name: those that no transaction of ours has folded.

    Whoever folded the others carries their columns, and a repair of the schema states them anew:
    what the folded file says is over. As in ``read_log``, folds of foreign clients do not count.
    """
    read = log.contents
    return sorted(read.keys() - folded_by_ours(log))


def folded_by_ours(log: LogRead) -> set[str]:
    """Log files that transactions of ours among those that were read have folded."""
    read = log.contents
    ours = (key for key, item in log.listing.items() if item.name.seq and key in read)
    return {stone.p for key in ours for stone in read[key].tombstones}


def newest_before(times: Sequence[tuple[int, int]], t: int) -> int:
    """The newest transaction before a time; 0 when there is none.

    Args:
        times: (t, seq) of the transactions that are known, sorted.
        t: unix milliseconds.
    """
    index = bisect_left(times, (t, 0))
    return times[index - 1][1] if index else 0


def line_sequence(name: LogName, first: int | None, times: Sequence[tuple[int, int]]) -> int:
    """Which transaction the writer of a log file's schema line had seen.

    That of a transaction states what it makes of the columns itself. All parts of one append have
    one sequence; a client of version 1 gives none, in an append or in a merge.

    Args:
        name: of the log file.
        first: sequence of the first part that it names.
        times: (t, seq) of the transactions that are known, sorted.
    """
    if name.seq:
        return name.seq
    if first is None or name.kind != "append":
        return newest_before(times, name.t)
    return first


def first_sequence(markers: Sequence[Marker]) -> int | None:
    """What the first of a log file's markers says."""
    return markers[0].q if markers else None


def lines_of(
    log: LogRead, changes: Sequence[SchemaChange], times: Sequence[tuple[int, int]]
) -> list[tuple[str, Mapping[str, str]]]:
    """(log file, its schema line as it would be stated now), of those that count, by name."""
    lines: list[tuple[str, Mapping[str, str]]] = []
    for key in standing(log):
        content, line = log.contents[key], log.contents[key].schema
        if changes:
            q = line_sequence(log.listing[key].name, first_sequence(content.markers), times)
            line = dict(line_now(changes, line, q))
        lines.append((key, line))
    if log.checkpoint is None:
        return lines
    # It states the lines as they were to be understood when it was written.
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
    """The union of the lines that count, and why they do not go together.

    Args:
        log: the log files.
        changes: of the schema, by sequence.
        times: (t, seq) of the transactions that are known, sorted.
        tolerant: give what they agree on instead of raising.

    Raises SchemaConflictError instead, unless ``tolerant``.
    """
    lines = lines_of(log, changes, times)
    try:
        return schemas.union(lines), None
    except SchemaConflictError as error:
        if not tolerant:
            raise
        return schemas.agreed(lines), error
