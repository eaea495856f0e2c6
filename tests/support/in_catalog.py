"""Tables of log files alone that have a mirror in an Iceberg catalog, a database in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import Table as IcebergTable

from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.log.txn_file import Counts
from firnline.mirror.iceberg.catalog import open_catalog
from firnline.mirror.iceberg.view import read_view
from firnline.properties.in_force import from_settings
from tests.support.mirrors import RUN
from tests.support.world import World, make_world

ROOT = "s3://bucket/t"


def where(folder: Path) -> dict[str, Any]:
    """Settings of a mirror in the catalog of a folder."""
    uri = f"sqlite:///{folder}/catalog.db"
    return {"catalog": "lake", "name": "ns.{table}", "properties": {"type": "sql", "uri": uri}}


def catalog_world(folder: Path, **settings: Any) -> World:
    """A table whose properties say that it has an Iceberg mirror."""
    clear_manifest_cache()  # other worlds have had the same names
    settings = {"root": ROOT, "mirror": [{"iceberg": where(folder)}], **settings}
    world = make_world(**settings)
    change = Change(
        op="properties",
        replaces=(),
        adds=(),
        counts=Counts(),
        properties=from_settings(world.settings),
    )
    commit(world.table, take_base(world.table), change, RUN)
    return world


def loaded(world: World) -> IcebergTable:
    """The mirror as the catalog has it."""
    opened = open_catalog(world.table)
    return opened.catalog.load_table(opened.identifier)


def shown(world: World) -> set[str]:
    """The keys of the parts that the mirror shows."""
    view = read_view(world.table)
    return set() if view is None else set(view.keys)


def drop(world: World) -> None:
    """Drop the mirror's table in the catalog, without its files."""
    opened = open_catalog(world.table)
    opened.catalog.drop_table(opened.identifier)
