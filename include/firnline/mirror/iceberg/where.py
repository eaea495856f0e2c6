"""Where the Iceberg mirror of a table is, for those too who lack the library pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from firnline.errors import MirrorCatalogError, MirrorPlaceError
from firnline.extras import to_install
from firnline.table import Table

AGAIN = (
    "drop the table in the Iceberg catalog without its files and run `firnline mirror`: the "
    "table's own log is not concerned"
)
"""Next step for a damaged mirror."""


@dataclass(frozen=True)
class Where:
    """The place of a mirror."""

    catalog: str
    identifier: tuple[str, ...]
    """Namespace and name."""
    properties: Mapping[str, str]


def where_is(table: Table) -> Where:
    """Return where the mirror of a table is.

    Raises:
        MirrorPlaceError: the settings do not say it.
        MirrorCatalogError: pyiceberg is missing.
    """
    name = table.settings.name
    planned = None if table.wanted is None else table.wanted.iceberg
    mirror = table.settings.iceberg or planned
    if mirror is None or mirror.place is None:
        raise MirrorPlaceError(
            f"the settings of table {name} do not say where its Iceberg mirror is",
            next_step="write mirror: [{iceberg: {catalog: NAME, name: namespace.table}}] into the "
            "settings file; clean-up goes on without it",
        )
    if find_spec("pyiceberg") is None:
        raise MirrorCatalogError(
            f"the Iceberg mirror of table {name} needs the library pyiceberg",
            next_step=f"run {to_install('pyiceberg')}",
        )
    catalog, pattern = mirror.place
    identifier = tuple(pattern.replace("{table}", name).split("."))
    return Where(catalog, identifier, mirror.properties)
