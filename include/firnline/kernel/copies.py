"""Choose inputs whose row groups go into the output as they are, as bytes (``parquet.join``).

Where nothing is sorted and no row goes, decoding and encoding would only make the same row groups
again. Parts of former merges have the form of the output and row groups of its size. Those of a
sorted group: ``kernel.sequence``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from firnline.errors import PartUnreadableError
from firnline.kernel.duckdb import tries
from firnline.kernel.inputs import Inputs
from firnline.kernel.task import KernelTask
from firnline.parquet.join import ZSTD, Footer, RowGroup, read_footer

_SHARE = 4
"""A row group is large enough with this fraction of the rows, or bytes, of one that is full."""


def copies_of(task: KernelTask, inputs: Inputs, schema: Callable[[], bytes]) -> list[Footer]:
    """Return the footers of the files to copy, all of one schema, in insertion order.

    Args: as of ``large_files``.
    """
    return large_files(task, inputs, schema) if task.is_plain else []


def large_files(task: KernelTask, inputs: Inputs, schema: Callable[[], bytes]) -> list[Footer]:
    """Return the footers of files as the task would write them, with row groups of full size.

    Args:
        task: the group.
        inputs: its checked inputs.
        schema: returns the schema of files that the task writes, see ``Footer.schema``. Other
            writers have other schemas for the same columns; one file has one.

    Returns:
        Those without hidden rows, in insertion order.
    """
    candidates: list[Footer] = []
    for group in inputs.staged:
        if group.where_hidden is None and not group.converted:
            for path in group.paths:
                if not _is_large(task, path, inputs.rows_of[path]):
                    continue  # of thousands of small parts no footer is read here
                footer = _footer(path)
                if footer is not None and _fits(task, footer):
                    candidates.append(footer)
    if not candidates:
        return []
    form = schema()
    return sorted((f for f in candidates if f.schema == form), key=lambda footer: footer.path)


def _footer(path: Path) -> Footer | None:
    """Return a footer; None for one that DuckDB has to read, or says which input is damaged."""
    try:
        return read_footer(path)
    except PartUnreadableError:
        return None


def _is_large(task: KernelTask, path: Path, rows: int) -> bool:
    """Return True if the file could have a row group that is large enough."""
    full = tries(task.memory, task.threads)[0].row_group_bytes
    return rows * _SHARE >= task.row_group_rows or path.stat().st_size * _SHARE >= full


def _fits(task: KernelTask, footer: Footer) -> bool:
    """Return True if the file is what the task would write: columns, codec, size of row groups."""
    groups = footer.row_groups
    if not groups or footer.columns != [name for name, _ in task.columns]:
        return False
    if any(group.codecs != {ZSTD} for group in groups):
        return False
    if task.bloom_filters is not None and not _is_filtered(groups):
        return False
    full = tries(task.memory, task.threads)[0].row_group_bytes
    rows, size = sum(group.rows for group in groups), sum(group.bytes for group in groups)
    return rows * _SHARE >= task.row_group_rows * len(groups) or size * _SHARE >= full * len(groups)


def _is_filtered(groups: Sequence[RowGroup]) -> bool:
    """Return True if a task with Bloom filters may have written the row groups.

    They are of columns with a dictionary: where no value repeats, there is neither.
    """
    return any(group.has_bloom_filter for group in groups) or not any(
        group.has_dictionary for group in groups
    )


def others(inputs: Inputs, copies: Sequence[Footer]) -> Inputs:
    """Return the inputs that are not copied."""
    taken: set[Path] = {footer.path for footer in copies}
    return inputs.only([path for path in inputs.rows_of if path not in taken])
