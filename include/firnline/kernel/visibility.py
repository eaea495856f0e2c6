"""The rows that readers see, as SQL: those that no delete hides, and of each key the winner.

Merges and reads say it with these texts, so that a merge cannot change what a reader sees
(docs/format.md, "Deletes" and "Primary keys").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firnline.types.sql import quote_name

# ruff: noqa: S608 -- names are quoted here, conditions come from predicate trees

PLACE_COLUMNS = ("filename", "file_row_number")
"""DuckDB's own columns of a scan, which show what was inserted last."""
NEEDS_PLACES = (
    f"a column named {' or '.join(PLACE_COLUMNS)}, which DuckDB needs to find out what was "
    "inserted last"
)
"""Columns that a table with a primary key must not have, as a message names them."""


def stays(condition: str) -> str:
    """Return the condition of the rows that a delete leaves: false or null, not true."""
    return f"({condition}) IS NOT TRUE"


def goes(condition: str) -> str:
    """Return the condition of the rows that a delete hides: the opposite of ``stays``."""
    return f"({condition}) IS TRUE"


def winners(
    rows: str,
    key: Sequence[str],
    version: str | None,
    place: Sequence[str],
    *,
    within: str | None = None,
    deleted: str | None = None,
) -> str:
    """Return the SELECT of the row that wins each key: the largest version, else the last inserted.

    Args:
        rows: a SELECT of the rows that no delete hides.
        key: columns of the primary key.
        version: column whose largest value wins; a null loses to every value.
        place: columns that sort as the rows were inserted.
        within: SQL of what tells partitions apart; None where all rows are of one.
        deleted: column of key tombstones; a winner that is one is left out. None: it is not.
    """
    alive = f" AND {stays(quote_name(deleted))}" if deleted else ""
    rank = rank_in_key(key, version, place, within=within)
    return f"SELECT * FROM ({rows}) QUALIFY {rank} = 1{alive}"


def rank_in_key(
    key: Sequence[str],
    version: str | None,
    place: Sequence[str],
    *,
    within: str | None = None,
    quote: Callable[[str], str] = quote_name,
) -> str:
    """Return the SQL of a row's rank among those of its key; the winner has 1.

    Args:
        key, version, place, within: as for ``winners``.
        quote: quotes a name in the engine's SQL; the rest of the text is the same in every engine.
    """
    of = ", ".join([*([within] if within else []), *map(quote, key)])
    by = [*([version] if version else []), *place]
    last = ", ".join(f"{quote(name)} DESC NULLS LAST" for name in by)
    return f"row_number() OVER (PARTITION BY {of} ORDER BY {last})"
