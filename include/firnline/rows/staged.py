"""The rows of a Parquet file in the bucket: copied to disk, checked, read in batches."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from firnline.errors import (
    LARGER_SCRATCH,
    ObjectNotFoundError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    ScratchFullError,
    UsageError,
)
from firnline.parquet.excerpt import Excerpt, fetch_excerpt
from firnline.rows.source import check_files, read_files
from firnline.store.base import Store
from firnline.types.schema import SchemaUnion

ABOUT_A_FILE = (PartUnreadableError, PartSchemaError, SchemaConflictError)


def staged_batches(
    store: Store,
    key: str,
    name: str,
    known: SchemaUnion,
    folder: Path,
    excerpt: Excerpt | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file, whose footer is checked first; its copy is deleted at the end.

    Requests: one GET; for an excerpt those of ``fetch_excerpt``.

    Args:
        store: where it lies.
        key: its key.
        name: its URL, for errors.
        known: columns of the table.
        folder: where the copy goes; one at a time.
        excerpt: the row groups to read; None: all.

    Raises:
        ScratchFullError: the disk is full.
        UsageError: it was deleted meanwhile.
        PartUnreadableError, PartSchemaError, SchemaConflictError: it does not read or fit; names
            the file.
    """
    copy = folder / "staged.parquet"
    try:
        _fetch(store, key, copy, excerpt)
        check_files([copy], known)
        yield from read_files([copy])
    except ObjectNotFoundError:
        raise was_deleted(name) from None
    except ABOUT_A_FILE as error:
        message = error.message.replace(str(copy), name)
        raise type(error)(message, next_step=error.next_step) from None
    finally:
        copy.unlink(missing_ok=True)


def was_deleted(name: str) -> UsageError:
    """Return the error for a staged file that is there no more. ``name``: its URL."""
    return UsageError(f"{name} was deleted while it was wanted", next_step="stage the rows again")


def _fetch(store: Store, key: str, copy: Path, excerpt: Excerpt | None) -> None:
    if excerpt is None:
        store.get_file(key, copy)
        return
    try:
        fetch_excerpt(store, key, excerpt, copy)
    except OSError as error:
        raise ScratchFullError(
            f"row groups of {key} cannot be written to {copy.parent}: {error.strerror}",
            next_step=LARGER_SCRATCH,
        ) from None
