"""The keys of an erase that are given in code or in a form: a list of one value per column each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firnline.errors import UsageError


def keys_of(given: object) -> tuple[tuple[Any, ...], ...]:
    """Return a tuple for each key; a value that is no list is a key of one column.

    A text is one value, and not the list of its letters. Raises UsageError: it is no list of keys.
    """
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        # Not the value itself: an error ends up in logs, and keys are personal data.
        raise UsageError(
            f"the keys of an erase are no list, but of type {type(given).__name__}",
            next_step='write them as [17, 18], with several columns as [("a", 17), ("b", 18)]',
        )
    return tuple(tuple(key) if isinstance(key, list | tuple) else (key,) for key in given)
