"""The base of a publication: a table that states the mirror, and what its log says of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline.commit.base import Base
from firnline.errors import NotMirroredError, UsageError
from firnline.state.history import headers_of
from firnline.table import Table


def refuse_unstated(base: Base, name: str) -> None:
    """Raise NotMirroredError for a table that does not say that it has such a mirror.

    Clean-up keeps parts for a mirror's readers only if the table itself says that there is one.

    Args:
        base: the table.
        name: of the format.
    """
    table = base.table.settings.name
    if not base.snapshot.listing:
        raise UsageError(
            f"table {table} has not been written to", next_step="append rows, then mirror it"
        )
    if name not in (() if base.properties is None else base.properties.mirrors):
        raise NotMirroredError(
            f"table {table} does not state mirror: [{name}] among its properties",
            next_step="write it into the settings file, then run `firnline properties apply "
            f"{table}`",
        )


def ops_of(table: Table, numbers: Iterable[int]) -> Mapping[int, str]:
    """Return number -> ``op`` of transactions that are there still. Requests: a GET for each."""
    return {header.seq: header.op for header in headers_of(table, numbers)}
