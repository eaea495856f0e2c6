"""Whether rows are what somebody says of them: a condition, asked of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from firnline.kernel.duckdb import open_duckdb
from firnline.types.sql import quote_name

_MEMORY = 256 * 2**20
_ROWS = "_rows"


class RowCheck:
    """Asks of Arrow tables, one after the other, which rows break a condition."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def breaking(
        self, rows: pa.Table, condition: str, columns: Sequence[str]
    ) -> tuple[int, tuple[object, ...]]:
        """How many rows the condition is not true for, and what one of them has.

        Args:
            rows: in the types of a part.
            condition: as ``predicate.to_sql`` makes it; false and null both break it.
            columns: of ``rows``, whose values are wanted.

        Returns:
            number of rows; values of ``columns`` of the first of them, () without one.
        """
        shown = ", ".join(quote_name(column) for column in columns)
        self._connection.register(_ROWS, rows)
        try:
            where = f"FROM {_ROWS} WHERE ({condition}) IS NOT TRUE"
            counted = self._connection.execute(f"SELECT count(*) {where}").fetchall()
            count = int(counted[0][0])
            if not count:
                return 0, ()
            first = self._connection.execute(f"SELECT {shown} {where} LIMIT 1").fetchall()
            return count, tuple(first[0])
        finally:
            self._connection.unregister(_ROWS)


@contextmanager
def row_check(scratch: Path) -> Iterator[RowCheck]:
    """A database for checks. ``scratch``: a folder of the caller's."""
    with open_duckdb(scratch, _MEMORY, 1) as connection:
        yield RowCheck(connection)
