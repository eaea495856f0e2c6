"""Tables that are copied and renamed by tools which know nothing of them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from firnline.log import codec
from firnline.paths import TablePaths
from firnline.table import Table
from tests.support.histories import state
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


def sized(world: World) -> World:
    """The same, its parts as large as their markers say."""
    for path, marker in state(world).parts.items():
        world.store.objects[path] = (b"x" * marker.b, world.store.objects[path][1])
    return world


def enriched(data: bytes, record: bytes) -> bytes:
    """A log file with one more record, and a key that nobody knows in each marker."""
    lines = data.split(b"\n")
    header = msgspec.json.decode(lines[0])
    first = header["f"]
    for place in ("tmb", "f"):
        if place in header:
            header[place] += 1
    markers = [line[:-1] + b',"zz":{"p":"t/_data/x","n":1.0}}' for line in lines[first:]]
    rest = [*lines[3 : header.get("tmb", header["f"]) - 1], record]
    rest += [*lines[header.get("tmb", header["f"]) - 1 : first], *markers]
    return codec.seal(msgspec.json.encode(header) + b"\n" + lines[1], b"\n".join(rest))
