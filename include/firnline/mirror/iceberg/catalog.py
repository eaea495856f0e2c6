"""The catalog of an Iceberg mirror: opened by pyiceberg, by its own configuration and settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.typedef import RecursiveDict
from pyiceberg.utils.config import Config, merge_config

from firnline.errors import FirnlineError, MirrorCatalogError, MirrorRefusedError
from firnline.mirror.iceberg.io import IMPLEMENTATION, PLACE, Place, register
from firnline.mirror.iceberg.shown import Target
from firnline.mirror.iceberg.where import where_is
from firnline.paths import Root
from firnline.table import Table
from firnline.types.formats import ending

SCHEMES = frozenset({"s3", "gs", "file"})
"""Stores whose URLs other engines read as ours."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """An open catalog, and the mirror's table in it."""

    catalog: Catalog
    name: str
    """Of the catalog."""
    identifier: tuple[str, ...]
    """Namespace and name of the mirror's table."""
    root: Root
    """Of the table that is mirrored."""
    location: str
    """URL of the mirror's metadata."""
    place: Place
    """Held for pyiceberg."""

    @property
    def target(self) -> Target:
        """The mirror's table, as records of what it shows name it."""
        return Target(self.name, self.identifier)

    def __str__(self) -> str:
        return str(self.target)


def open_catalog(table: Table) -> Opened:
    """Open the catalog of a table's mirror; nothing is asked of it yet.

    Raises:
        MirrorRefusedError: the settings name no catalog, or the store has no URL for engines.
        MirrorCatalogError: pyiceberg is missing, or does not know the catalog.
    """
    where = where_is(table)
    root = Root.parse(table.settings.root)
    if root.scheme not in SCHEMES:
        raise MirrorRefusedError(
            f"engines that read Iceberg do not read {root.scheme}:// as firnline does, where "
            f"table {table.settings.name} lies",
            next_step=ending(table.settings.name, ["iceberg"]),
        )
    place = Place(table.store, root)
    with asked(where.catalog):
        given = {**where.properties, "py-io-impl": IMPLEMENTATION, PLACE: register(place)}
        catalog = _load(where.catalog, given)
    location = root.url_of(table.paths.iceberg_dir).rstrip("/")
    return Opened(catalog, where.catalog, where.identifier, root, location, place)


def _load(name: str, properties: dict[str, str]) -> Catalog:
    """Open a catalog as pyiceberg does; a REST catalog is asked with a limit."""
    if "py-catalog-impl" in properties:
        return load_catalog(name, **properties)
    configured: RecursiveDict = Config().get_catalog_config(name) or {}
    whole = merge_config(configured, {**properties})
    given = whole.get("type")
    kind = CatalogType(str(given).lower()) if given else infer_catalog_type(name, whole)
    if kind is not CatalogType.REST:
        return load_catalog(name, **properties)
    from firnline.mirror.iceberg.rest import LimitedRestCatalog  # its imports take 0.2 s

    return LimitedRestCatalog(name, **cast("dict[str, str]", whole))


@contextmanager
def asked(name: str) -> Iterator[None]:
    """Turn what a catalog's library raises into one sentence. Errors of ours pass.

    Raises MirrorCatalogError.
    """
    try:
        yield
    except FirnlineError:
        raise
    except Exception as error:
        _LOG.debug("the catalog %s failed", name, exc_info=True)
        first = (str(error).strip().splitlines() or [""])[0]
        raise MirrorCatalogError(
            f"the Iceberg catalog {name} does not answer as it should: "
            f"{type(error).__name__}: {first[:300]}",
            next_step="see pyiceberg's configuration of it and that it runs, and try again: "
            "nothing of the table changed",
        ) from error
