"""Tables made of nothing but log files: parts are keys with row counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from firnline.commit.base import Base, take_base
from firnline.commit.transaction import Change, Committed, commit
from firnline.log import codec
from firnline.log.records import LogContent, Marker, sort_json
from firnline.log.txn_file import Counts, RunIdentity
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.types.order import Order
from tests.support.world import World

SCHEMA = {"ts": "TIMESTAMP", "v": "INTEGER"}


def part_key(world: World, partition: str = "d=1") -> str:
    """A fresh key under the table's data folder, with an object behind it."""
    key = world.table.paths.data_part(partition, world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (b"rows", world.clock.now)
    return key


def put_append(
    world: World,
    *partitions: str,
    rows: int | None = 10,
    size: int = 100,
    q: int | Literal["newest"] | None = "newest",
    schema: dict[str, str] | None = None,
    t: int | None = None,
    sorted_by: Order = (),
) -> list[str]:
    """One append: a part in each partition and one log file. Returns the parts' keys.

    ``q``: its sequence; "newest" is that of an append that begins now.
    """
    world.clock.advance(1)
    if q == "newest":
        q = newest_number(world)
    at = world.clock.now if t is None else t
    keys = [part_key(world, p) for p in partitions or ("d=1",)]
    order = sort_json(sorted_by)
    markers = [Marker(p=k, b=size, t=at, n=rows, q=q, o=(at, at), k=order) for k in keys]
    content = LogContent(t=at, schema=SCHEMA if schema is None else schema, markers=markers)
    name = world.table.paths.append_log(at, f"host-{world.ids.uuid7(at)}")
    world.store.put_new(name, codec.encode(content))
    return keys


def newest_number(world: World) -> int:
    """The number of the newest transaction under ``_txn/``; 0 without one."""
    paths = world.table.paths
    return max(
        (paths.parse_txn(k) for k in world.store.objects if k.startswith(paths.txn_dir)), default=0
    )


def snapshot(world: World) -> Snapshot:
    """The state now, read in full."""
    return read_snapshot(world.store, world.table.paths, everything=True)


def merge_change(world: World, keys: Sequence[str], base: Base) -> Change:
    """Replace parts by one new part with all their rows."""
    rows = sum(base.snapshot.parts[k].n or 0 for k in keys)
    new = part_key(world, world.table.paths.parse_part(keys[0]).partition)
    orders = [base.snapshot.parts[k].order() for k in keys]
    order = (min(o[0] for o in orders), max(o[1] for o in orders))
    marker = Marker(p=new, b=100 * len(keys), t=0, n=rows, q=base.seq, o=order)
    counts = Counts(parts_in=len(keys), parts_out=1, rows_in=rows, rows_out=rows)
    return Change(op="merge", replaces=tuple(keys), adds=(marker,), counts=counts)


def do_merge(world: World, keys: Sequence[str], base: Base | None = None) -> Committed:
    """Merge parts in one transaction."""
    base = base or take_base(world.table)
    return commit(world.table, base, merge_change(world, keys, base), RunIdentity(run_id="r"))


def do_nothing(world: World) -> Committed:
    """One transaction that changes no part: the fence can pass what was there before."""
    world.clock.advance(1)
    change = Change(op="analyze", replaces=(), adds=(), counts=Counts())
    return commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))


def v1_live(world: World) -> set[str]:
    """The live parts as a v1 client sees them."""
    prefix = world.table.paths.prefix + "/_log/"
    return v1_state({k: d[0] for k, d in world.store.objects.items() if k.startswith(prefix)})


def v1_state(log_files: Mapping[str, bytes]) -> set[str]:
    """The live parts as a v1 client sees them: files in order of their names, later lines win.

    Written from the rules of the v1 format alone; shares no code with the product.
    """
    live: dict[str, bool] = {}
    for key in sorted(log_files):
        lines = log_files[key].split(b"\n")
        header = json.loads(lines[0])
        for line in lines[header["f"] :]:
            marker = json.loads(line)
            live[marker["p"]] = "tmb" not in marker
    return {p for p, alive in live.items() if alive}
