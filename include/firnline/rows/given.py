"""What makes the rows of anybody's file those of a table, as plain data."""

from __future__ import annotations

import msgspec


class GivenColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column that a file does not have, with one value for all of its rows."""

    name: str
    type: str
    """SQL type."""
    text: str | None
    """The value, as a folder states it; None: a null."""


class Fitting(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the rows of anybody's file those of a table."""

    given: tuple[GivenColumn, ...] = ()
    casts: tuple[tuple[str, str], ...] = ()
    """Columns of the file, and the types that hold their values in the table. A value that the type
    does not hold exactly is an error."""
