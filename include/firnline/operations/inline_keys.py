"""The keys of an erase that are given in code or in a form: a list of one value per column each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from firnline.errors import UsageError
from firnline.plain_values import plain

_LISTS = (Sequence, Set, Iterator)


def keys_of(given: object) -> tuple[tuple[Any, ...], ...]:
    """Return a tuple for each key; a value that is no list is a key of one column.

    A text is one value, and not the list of its letters. Columns and values of other libraries
    become plain ones (``plain_values``). Raises UsageError: it is no list of keys; a frame is none,
    which would be read as the names of its columns.
    """
    given = plain(given)
    if isinstance(given, str | bytes | dict) or not isinstance(given, _LISTS):
        # Not the value itself: an error ends up in logs, and keys are personal data.
        raise UsageError(
            f"the keys of an erase are no list, but of type {type(given).__name__}",
            next_step='write them as [17, 18], with several columns as [("a", 17), ("b", 18)]',
        )
    keys = (plain(key) for key in given)
    return tuple(tuple(key) if isinstance(key, list | tuple) else (key,) for key in keys)
