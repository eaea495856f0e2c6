"""The schema of a table from the lines of its log files (docs/format.md, "Snapshot")."""

from __future__ import annotations

from firnline import schema as schemas
from firnline.errors import SchemaConflictError
from firnline.log.reader import LogRead


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


def schema_of(log: LogRead, *, tolerant: bool) -> tuple[dict[str, str], SchemaConflictError | None]:
    """The union of the lines that count, and why they do not go together.

    Raises SchemaConflictError instead, unless ``tolerant``.
    """
    lines = [(name, log.contents[name].schema) for name in standing(log)]
    if log.checkpoint is not None:
        folded = folded_by_ours(log)
        lines = sorted([*lines, *log.checkpoint.schema_lines(folded)], key=lambda line: line[0])
    try:
        return schemas.union(lines), None
    except SchemaConflictError as error:
        if not tolerant:
            raise
        return schemas.agreed(lines), error
