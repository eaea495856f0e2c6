"""Facts of a table's columns that DuckDB has to be asked for, once in a process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MOST = 256
"""Facts that are kept: those of so many tables."""


class Once(Generic[K, V]):
    """Keeps what was made for a key; two threads may make the same at the same time."""

    def __init__(self) -> None:
        self._kept: dict[K, V] = {}

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return what is kept for the key, or is made for it now."""
        if key not in self._kept:
            made = make()
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[key] = made
            return made
        return self._kept[key]
