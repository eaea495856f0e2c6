"""Find parts that lie one behind the other in the order of a sorted group (RFC 26).

Tables that are sorted by time are appended to in its order: most files of a group lie wholly before
or after all others. What a merge has written of them has row groups of full size in that order, and
goes into the next output as bytes; only the files around it are sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from firnline.errors import PartUnreadableError
from firnline.kernel.arrow_reader import NotHereError, footers
from firnline.kernel.copies import large_files
from firnline.kernel.inputs import Inputs
from firnline.kernel.task import KernelTask
from firnline.parquet.footers import order_of_part
from firnline.parquet.io import UNREADABLE
from firnline.parquet.join import Footer
from firnline.parquet.stats import from_footer
from firnline.types.order import order_of
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import bound_key


@dataclass(frozen=True, slots=True)
class Stretch:
    """Files whose rows all lie behind those of the stretch before, in the order of the group."""

    paths: tuple[Path, ...]
    copied: Footer | None = None
    """Of the only file, whose row groups go into the output as they are; None: to be sorted."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file, and between which values of the first sort column its rows lie."""

    path: Path
    low: Any
    high: Any
    is_sorted: bool


def stretches_of(
    task: KernelTask, inputs: Inputs, schema: Callable[[], bytes]
) -> tuple[Stretch, ...]:
    """Return the inputs in the order of the output; none if all of them have to be sorted.

    Args:
        task: the group.
        inputs: its checked inputs, of which all rows stay.
        schema: see ``copies_of``.
    """
    if not task.sort_by or not task.keeps_rows or task.slice is not None:
        return ()
    if not inputs.are_whole(len(task.columns)):
        return ()
    copies = {footer.path: footer for footer in large_files(task, inputs, schema)}
    if not copies:
        return ()
    try:
        files = _files(task, inputs)
    except (NotHereError, PartUnreadableError, *UNREADABLE):
        return ()  # DuckDB reads it, or says which one is damaged
    stretches: list[Stretch] = []
    # Stretches next to each other that have to be sorted are sorted together.
    for copied, members in groupby(_apart(files), lambda each: _copied(each, copies)):
        paths = tuple(file.path for together in members for file in together)
        stretches.append(Stretch(paths, copied))
    if task.sort_by[0].descending:
        stretches.reverse()
    return tuple(stretches) if any(each.copied for each in stretches) else ()


def _copied(together: list[_File], copies: dict[Path, Footer]) -> Footer | None:
    """Return the footer of a file that lies apart and is in order; None for others."""
    return copies.get(together[0].path) if len(together) == 1 and together[0].is_sorted else None


def _apart(files: list[_File]) -> Iterator[list[_File]]:
    """Yield files whose ranges overlap or touch together, in ascending order.

    Where ranges touch, equal values of several files are in the order of the other columns.
    """
    first, *others = sorted(files, key=lambda file: file.low)
    together, reach = [first], first.high
    for file in others:
        if file.low > reach:
            yield together
            together, reach = [], file.high
        together.append(file)
        reach = max(reach, file.high)
    yield together


def _files(task: KernelTask, inputs: Inputs) -> list[_File]:
    """Return the files with their ranges, as wide as their footers state them.

    Raises NotHereError: one states none, or holds nulls, which come after every value.
    """
    order = order_of(task.sort_by)
    leading = fold_name(order[0].column)
    name, kind = next(each for each in task.columns if fold_name(each[0]) == leading)
    key = bound_key(normalise(kind))
    files: list[_File] = []
    for path, footer in footers(inputs.rows_of):
        low, high, nulls = from_footer(footer, [name]).get(name, (None, None, 1))
        if key is None or low is None or high is None or nulls:
            raise NotHereError
        is_sorted = order_of_part(path.name, footer)[: len(order)] == order
        files.append(_File(path, key(low), key(high), is_sorted))
    return files
