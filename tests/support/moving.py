"""Tables that are copied and renamed by tools which know nothing of them."""

from __future__ import annotations

from dataclasses import replace

from firnline.paths import TablePaths
from firnline.table import Table
from tests.support.world import MemoryStore, World


def beside(table: Table, name: str) -> Table:
    """The place ``name`` in the same bucket, as a table of the same settings."""
    scheme = table.settings.root.partition("://")[0]
    bucket = table.settings.root.removeprefix(f"{scheme}://").partition("/")[0]
    root = f"{scheme}://{bucket}/{name}"
    settings = table.settings.model_copy(update={"root": root, "name": name})
    return replace(table, settings=settings, paths=TablePaths(name))


def moved(table: Table, name: str, *, rename: bool = False) -> Table:
    """A table in memory that somebody copied, or renamed, object by object."""
    found, store = beside(table, name), table.store
    assert isinstance(store, MemoryStore)
    start = table.paths.data_dir.removesuffix("_data/")
    for key in [k for k in store.objects if k.startswith(start)]:
        store.objects[f"{name}/{key.removeprefix(start)}"] = store.objects[key]
        if rename:
            del store.objects[key]
    return found


def copied(world: World, name: str = "copy", *, rename: bool = False) -> World:
    """The same for a world."""
    table = moved(world.table, name, rename=rename)
    return replace(world, settings=table.settings, table=table)
