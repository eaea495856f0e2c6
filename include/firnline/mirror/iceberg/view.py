"""The mirror as its readers see it: files and columns of the newest snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.schema import Schema

from firnline.mirror.iceberg import columns
from firnline.mirror.iceberg.catalog import asked, open_catalog
from firnline.mirror.iceberg.head import read_head, replay
from firnline.mirror.position import Position
from firnline.table import Table


@dataclass(frozen=True)
class View:
    """The newest snapshot."""

    name: str
    """Of the Iceberg table, as messages name it."""
    version: int
    position: Position
    keys: frozenset[str]
    """Keys of the parts that it shows."""
    schema: Schema

    def differs(self, table: str, wanted: Mapping[str, str]) -> bool:
        """Return True if the columns are others.

        Args:
            table: name of the table, for the error.
            wanted: column -> SQL type.

        Raises MirrorRefusedError: a column has no place in Iceberg.
        """
        kinds = columns.kinds_of(table, wanted)
        return columns.evolve(self.schema, self.schema.highest_field_id, 0, kinds) != self.schema


def read_view(table: Table) -> View | None:
    """Return what readers see; None if the catalog has no mirror of the table.

    Requests: those of ``read_head``, and a GET per manifest and one for their list.

    Raises MirrorRefusedError, MirrorDamagedError, MirrorCatalogError.
    """
    opened = open_catalog(table)
    head = read_head(opened)
    if head is None:
        return None
    with asked(opened.name):
        keys = frozenset(opened.root.key_of(url) for url in replay(head))
        return View(str(opened), head.version, head.position, keys, head.table.schema())
