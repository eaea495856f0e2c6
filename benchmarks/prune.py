"""Parts that a condition reads of a table in 64 buckets and of one hash cluster of 64 outputs.

    python -m benchmarks.prune [rows]      as tables

By the planner of reads alone: no part is read. "before" is the same state without the hash ranges
in its markers, so by statistics only. The ids of a condition are drawn from all that there are.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.cluster import merge
from firnline.appends.append import Appender
from firnline.log.records import NO_STATS
from firnline.predicate.sql import parse_sql
from firnline.read.plan import ReadOptions, plan_read
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table

ROWS = 1_000_000
PARTS = 64
TRIES = 50
"""Conditions of each kind; the figures are means."""
BY_HASH = {"columns": ["id"], "method": "hash", "run_size": "1TiB"}
CONDITIONS: dict[str, Callable[[random.Random, int], str]] = {
    "id = x": lambda chance, rows: f"id = {chance.randrange(rows)}",
    "id IN (3 values)": lambda chance, rows: f"id IN {tuple(chance.sample(range(rows), 3))}",
    "id IN (20 values)": lambda chance, rows: f"id IN {tuple(chance.sample(range(rows), 20))}",
    "id = x OR id = y": lambda chance, rows: "id = {} OR id = {}".format(
        *chance.sample(range(rows), 2)
    ),
    "id = x AND v > 0.5": lambda chance, rows: f"id = {chance.randrange(rows)} AND v > 0.5",
    "v > 0.5": lambda _chance, _rows: "v > 0.5",
}


def main(rows: int) -> None:
    """Print parts planned before and after, and what planning takes."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        show("bucket(64, id)", filled(work, rows, {"partition_by": [f"bucket({PARTS}, id)"]}), rows)
        shutil.rmtree(work / "t")
        table = filled(work, rows, {"cluster_by": BY_HASH})
        size = sum(m.b for m in state_of(table).live.values())
        target = {"cluster_by": BY_HASH, "merge": {"target_size": size // PARTS, "min_inputs": 2}}
        table = opened(work, target)
        merge(table, work / "scratch")
        show("cluster_by: hash(id)", table, rows)


def opened(work: Path, settings: Mapping[str, Any]) -> Table:
    declared = {"name": "t", "root": f"file://{work}/t", **settings}
    return open_table(TableSettings.model_validate(declared), StoreAccess.from_env())


def filled(work: Path, rows: int, settings: Mapping[str, Any]) -> Table:
    """Each id once, in no order; for a cluster in two appends, so that there is a merge."""
    chance = np.random.default_rng(1)
    ids = chance.permutation(rows)
    appender = Appender(opened(work, settings))
    for half in np.array_split(ids, 2) if "cluster_by" in settings else [ids]:
        # Nine columns that no codec makes smaller: 64 outputs of at least 1 MiB.
        values = {f"v{number or ''}": chance.random(len(half)) for number in range(9)}
        appender.append(pa.table({"id": half, **values}))
    return opened(work, settings)


def state_of(table: Table) -> Snapshot:
    return read_snapshot(table.store, table.paths)


def show(title: str, table: Table, rows: int) -> None:
    """Print a table: condition, parts planned by statistics alone, and with hash ranges."""
    after = state_of(table)
    bare = {p: msgspec.structs.replace(m, h=NO_STATS) for p, m in after.parts.items()}
    before = replace(after, parts=bare)
    print(f"{title}: {len(after.live)} parts")
    print(f"  {'condition':22s} {'before':>8s} {'after':>8s} {'plan, ms':>10s}")
    for name, condition in CONDITIONS.items():
        chance = random.Random(1)
        trees = [parse_sql(condition(chance, rows), after.schema) for _ in range(TRIES)]
        options = [ReadOptions(where=tree) for tree in trees]
        old = mean(len(plan_read(before, table.settings, o).task.parts) for o in options)
        began = time.perf_counter()
        new = mean(len(plan_read(after, table.settings, o).task.parts) for o in options)
        took = (time.perf_counter() - began) / TRIES * 1000
        print(f"  {name:22s} {old:8.1f} {new:8.1f} {took:10.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
