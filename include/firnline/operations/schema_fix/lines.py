"""The log files whose schema line is wrong, and the line that takes their place: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from firnline.commit.transaction import Mended
from firnline.errors import CommitConflictError, SchemaConflictError, UsageError
from firnline.operations.schema_fix.statements import lines
from firnline.operations.schema_fix.target import Target
from firnline.predicate.tree import bind, columns_of, parse_json
from firnline.state.snapshot import Snapshot
from firnline.types.schema import SchemaUnion, normalise
from firnline.types.sql import fold_name


def wrong_files(snapshot: Snapshot, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the log files that contradict the targets, by name."""
    return tuple(
        key
        for key, line in lines(snapshot)
        if any(
            target.wrong(name, normalise(kind)) for name, kind in line.items() for target in targets
        )
    )


def line_of(
    snapshot: Snapshot,
    targets: Sequence[Target],
    renamed: Mapping[str, str],
    log_files: Iterable[str],
) -> dict[str, str]:
    """Return the schema line for the log file that folds the wrong ones.

    It states what all log files agree on, the targets as they are to be, and what only the folded
    ones say.

    Args:
        snapshot: the state, read ``tolerant``.
        targets: the columns as they are to be.
        renamed: new column -> type.
        log_files: what is folded.

    Raises:
        UsageError: these contradict each other in another column.
    """
    mine = {target.folded for target in targets}
    union = SchemaUnion()
    union.add("the table", _without(snapshot.schema, mine))
    stated = {t.column: t.kept for t in targets if not t.gone}
    union.add("the repair", stated | dict(renamed))
    try:
        for key in log_files:
            union.add(f"log file {key}", _without(snapshot.line(key), mine))
    except SchemaConflictError as error:
        raise UsageError(
            f"log files that have to be corrected contradict each other in another column too: "
            f"{error.message}",
            next_step="give that column as well: --column and --type may be repeated",
        ) from None
    return union.columns


def _without(line: Mapping[str, str], folded: set[str]) -> dict[str, str]:
    return {name: kind for name, kind in line.items() if fold_name(name) not in folded}


def gone_of(targets: Sequence[Target]) -> set[str]:
    """Return columns that no longer exist, by ``fold_name``."""
    return {target.folded for target in targets if target.gone}


def refuse_deletes(snapshot: Snapshot, targets: Sequence[Target], line: Mapping[str, str]) -> None:
    """Raise UsageError for a delete record that is not valid for the new types."""
    mine = {target.folded for target in targets}
    for delete in snapshot.deletes.values():
        tree = parse_json(delete.where)
        if not mine & {fold_name(name) for name in columns_of(tree)}:
            continue
        try:
            bind(tree, {**_without(snapshot.schema, gone_of(targets)), **line})
        except UsageError as error:
            raise UsageError(
                f"delete {delete.id} may still hide rows, and would not be understood any more: "
                f"{error.message}",
                next_step="choose the type that the column had when it was made, or --rename",
            ) from None


def mended(
    snapshot: Snapshot,
    targets: Sequence[Target],
    renamed: Mapping[str, str],
    planned: Collection[str],
) -> Mended:
    """Return the repair on a base, which may be a later one than it was planned on.

    Args:
        snapshot: the base.
        targets: the columns as they are to be.
        renamed: new column -> type.
        planned: the log files to fold; those that a rival has folded are left to him.

    Raises CommitConflictError when a log file is wrong that is not among the ``planned``.
    """
    wrong, known = wrong_files(snapshot, targets), [key for key, _ in lines(snapshot)]
    new = [key for key in wrong if key not in planned]
    if new:
        raise CommitConflictError(
            f"log file {new[0]} states a wrong type too and came while the repair ran",
            next_step="stop its writer and run it again",
        )
    folds = tuple(key for key in known if key in planned)
    return Mended(
        folds=folds,
        line=line_of(snapshot, targets, renamed, folds),
        gone=frozenset(gone_of(targets)),
    )
