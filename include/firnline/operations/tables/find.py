"""Find the tables below a place: a walk over folders that looks into no folder of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from firnline.errors import StoreError
from firnline.operations.at_once import at_once
from firnline.paths import TablePaths
from firnline.state.health import Transactions
from firnline.store.base import Store

AT_ONCE = 16
"""Folders that are listed concurrently."""


@dataclass(frozen=True, slots=True)
class Found:
    """A table, or a folder that could not be listed."""

    prefix: str
    """Key prefix, without the slash at its end."""
    error: StoreError | None = None
    """Why the folder could not be listed; None for a table."""


def find_tables(store: Store, prefix: str, depth: int) -> list[Found]:
    """Return the tables at ``prefix`` and below it, in the order of their depth and then keys.

    A table is a folder with ``_log/``, or with a birth record or transactions under ``_txn/``. What
    lies below it in folders that are not its own is looked at, too.

    Requests: 1 LIST for each folder down to ``depth`` and each 1,000 folders and objects right in
    it, but for the folders of a table; 1 LIST more of a folder that has ``_txn/`` and no ``_log/``.

    Args:
        store: that holds ``prefix``.
        prefix: key prefix of the place, without a slash at its end; empty for the whole bucket.
        depth: levels of folders below ``prefix``; 0 looks at that alone.

    Raises StoreError: the place itself cannot be listed.
    """
    found: list[Found] = []
    level: Sequence[str] = [prefix]
    for left in range(depth, -1, -1):
        listed = at_once(level, partial(_look, store), AT_ONCE)
        found += [one.found for one in listed if one.found is not None]
        if left == depth and found and found[0].error is not None:
            raise found[0].error
        level = [folder for one in listed for folder in one.below]
    return found


@dataclass(frozen=True, slots=True)
class _Looked:
    found: Found | None
    below: tuple[str, ...]
    """Folders in which tables may be, without their slashes."""


def _look(store: Store, prefix: str) -> _Looked:
    """List one folder."""
    paths = TablePaths(prefix)
    try:
        folders = list(store.list_folders(paths.root))
        is_table = paths.log_dir in folders or (
            paths.txn_dir in folders and Transactions.of(paths, store.list(paths.txn_dir)).born
        )
    except StoreError as error:
        return _Looked(Found(prefix, error), ())
    others = [each for each in folders if not (is_table and paths.is_own_folder(each))]
    below = tuple(each.removesuffix("/") for each in others)
    return _Looked(Found(prefix) if is_table else None, below)
