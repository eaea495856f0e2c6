"""The dead parts that readers of a table's mirrors may still use, one answer for each format."""

from __future__ import annotations

from firnline.mirror.delta import retention
from firnline.mirror.iceberg import shown
from firnline.mirror.retention import Readers
from firnline.table import Table


def readers_of(table: Table, grace: int, now_ms: int) -> tuple[Readers, ...]:
    """Return what readers of each mirror that the table states may use.

    Requests: those of ``retention.readers_of`` for a Delta mirror, of ``shown.readers_of`` for an
    Iceberg mirror, whose catalog is not asked; none for a table without mirrors.

    Args:
        table: the table, under its own properties.
        grace: how long a reader may use a version after a newer one, ms.
        now_ms: wall clock.

    Raises MirrorDamagedError.
    """
    of_mirrors: list[Readers | None] = []
    if table.settings.delta is not None:
        of_mirrors.append(retention.readers_of(table.store, table.paths, grace, now_ms))
    if table.settings.iceberg is not None:
        of_mirrors.append(shown.readers_of(table.store, table.paths, grace, now_ms))
    return tuple(readers for readers in of_mirrors if readers is not None)
