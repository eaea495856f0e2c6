"""The mirror as its readers see it: the files of the newest snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from firnline.mirror.iceberg.catalog import Opened, asked, open_catalog
from firnline.mirror.iceberg.head import Head, read_head, replay
from firnline.mirror.position import Position
from firnline.table import Table


@dataclass(frozen=True)
class View:
    """The newest snapshot."""

    position: Position
    keys: frozenset[str]
    """Keys of the parts that it shows."""


def read_view(table: Table) -> View | None:
    """Return what readers see; None if the catalog has no mirror of the table.

    Requests: those of ``read_head``, and a GET per manifest and one for their list.

    Raises MirrorRefusedError, MirrorDamagedError, MirrorCatalogError.
    """
    opened = open_catalog(table)
    head = read_head(opened)
    return None if head is None else view_of(opened, head)


def view_of(opened: Opened, head: Head) -> View:
    """Return what readers of a head see; requests and errors as ``read_view`` behind the head."""
    with asked(opened.name):
        return View(head.position, frozenset(opened.root.key_of(url) for url in replay(head)))
