"""Translate errors of DuckDB and the operating system into firnline's."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import duckdb

from firnline.errors import (
    DAMAGED_PART,
    LARGER_SCRATCH,
    FirnlineError,
    KernelError,
    PartUnreadableError,
    ScratchFullError,
)
from firnline.parquet.words import WRITTEN_OTHERWISE, odd_in_words

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# DuckDB gives the system's text but no number; the last two are its own limit on spilled bytes.
_NO_SPACE_TEXTS = (
    "no space left on device",
    "disk quota exceeded",
    "file too large",
    "max_temp_directory_size",
    "failed to offload data block",
)

# DuckDB takes what ZSTD returns for a size and does not ask whether it is the code of an error. The
# number that it prints is the page's size before; ZSTD's only error for a page is refused memory.
_PAGE_NOT_COMPRESSED = re.compile(r"(\d+) compressed page size out of range")
_LARGEST_PAGE = 2**31 - 1


def scratch_full(folder: Path, error: BaseException) -> ScratchFullError | None:
    """Return the error for a full disk if ``error`` means that, else None."""
    full = isinstance(error, OSError) and error.errno in _NO_SPACE
    if not full and isinstance(error, duckdb.Error):
        full = any(text in str(error).lower() for text in _NO_SPACE_TEXTS)
    return disk_full(folder) if full else None


def disk_full(folder: Path) -> ScratchFullError:
    """Return the error for a scratch folder without space."""
    return ScratchFullError(
        f"the scratch folder {folder} is full",
        next_step=f"{LARGER_SCRATCH}; a merge needs about three times the bytes of its inputs "
        "(merge.target_size bounds them)",
    )


def unreadable(
    key: str,
    error: BaseException,
    odd: Mapping[str, str] = MappingProxyType({}),
    column: str | None = None,
) -> PartUnreadableError:
    """Return the error for an input that DuckDB does not read.

    Args:
        key: of the part.
        error: of DuckDB.
        odd: its columns in another form than that of parts, and what differs: other readers may
            read them.
        column: the one that cannot be read, if others can.
    """
    reason = first_line(error)
    if odd:
        return PartUnreadableError(
            f"part {key} has {odd_in_words(odd)}, and DuckDB does not read it ({reason})",
            next_step=WRITTEN_OTHERWISE,
        )
    where = "" if column is None else f" in column {column!r}"
    return PartUnreadableError(
        f"part {key} is not readable as Parquet{where} ({reason})", next_step=DAMAGED_PART
    )


def kernel_fault(what: str, error: BaseException) -> FirnlineError:
    """Return the error for a fault of neither input nor disk; names the cause."""
    if _refused_memory(error):
        # Within the kernel's own bound: raising that would not help.
        return KernelError(
            f"{what} was refused memory by the system ({first_line(error)})",
            next_step="give its process 1.3 x merge.kernel_memory (of an executor's task: outside "
            "the JVM, spark.executor.memoryOverhead), or lower merge.kernel_memory",
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return KernelError(
            f"{what} does not fit into the memory of its kernel ({first_line(error)})",
            next_step="raise merge.kernel_memory (and the executor's memory with it)",
        )
    return KernelError(
        f"{what} failed in the kernel: {type(error).__name__}: {first_line(error)}",
        next_step="see with `firnline verify --deep --rows` whether its parts can be read; if "
        "they can, run again with --debug and report what it prints",
    )


def _refused_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or "bad allocation" in str(error):
        return True
    page = _PAGE_NOT_COMPRESSED.search(str(error))
    return page is not None and int(page[1]) <= _LARGEST_PAGE


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without DuckDB's prefix."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    head, _, tail = lines[0].partition(" Error: ")
    return (tail if tail and len(head) < 24 else lines[0]).rstrip(".")
