"""What a user decides of objects that nobody names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user decides of objects that nobody names: globs over keys or file names."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def includes(self, key: str) -> bool:
        """Whether an undecided object goes in."""
        return _matches(key, self.include)

    def excludes(self, key: str) -> bool:
        """Whether it stays out."""
        return _matches(key, self.exclude)


def _matches(key: str, globs: Iterable[str]) -> bool:
    name = key.rpartition("/")[2]
    return any(fnmatchcase(key, glob) or fnmatchcase(name, glob) for glob in globs)
