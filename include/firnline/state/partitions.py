"""Choose partitions by globs: one rule for reads, operations, DAGs and commands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from firnline.errors import UsageError, quoted


def matches(partition: str, globs: Sequence[str]) -> bool:
    """Return True if one of the globs matches the partition, or if there is none."""
    return not globs or any(fnmatchcase(partition, glob) for glob in globs)


def choose(
    partitions: Collection[str],
    globs: Sequence[str],
    *,
    of: str = "the table",
    next_step: str | None = None,
) -> list[str]:
    """Return the partitions that one of the globs matches, in their order; all without globs.

    Args:
        partitions: names, as ``year=2013/month=12``.
        globs: case counts, and ``*`` matches ``/``, too.
        of: what they are partitions of, for the error.
        next_step: for the error; without it the first names are told.

    Raises UsageError: a glob that matches none, so that a mistyped one does not mean nothing.
    """
    for glob in globs:
        if not any(fnmatchcase(partition, glob) for partition in partitions):
            some = ", ".join(list(partitions)[:5]) or "none"
            raise UsageError(
                f"no partition of {of} matches {quoted(glob)}",
                next_step=next_step or f"see `firnline parts`; the first partitions are: {some}",
            )
    return [partition for partition in partitions if matches(partition, globs)]
