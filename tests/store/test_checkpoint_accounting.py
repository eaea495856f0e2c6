"""What checkpoints cost and save on a real store, in requests; and a restore."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, DropOptions, RestoreOptions
from firnline.operations.restore.run import run_restore
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.store.probe import forget
from firnline.table import Table
from tests.support.checkpoints import ALWAYS, assert_same
from tests.support.commit_costs import CHECK, FIRST_CHECK
from tests.support.on_store import filled, later, opened
from tests.support.reading import visible_ids
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
APPENDS = 12


def spent(table: Table, before: Mapping[str, int]) -> dict[str, int]:
    counters = table.store.counters.as_dict()
    found = {k: counters[k] - before[k] for k in ("get", "put", "list", "delete", "head")}
    return {kind: count for kind, count in found.items() if count}


def read(table: Table, **options: Any) -> tuple[Snapshot, dict[str, int]]:
    before = table.store.counters.as_dict()
    state = read_snapshot(table.store, table.paths, **options)
    return state, spent(table, before)


def test_a_reader_pays_one_list_and_one_get_for_a_checkpoint(store_root: StoreRoot) -> None:
    # Besides 1 LIST of the log and 1 of the transactions.
    table = opened(store_root, checkpoint={"min_parts": 1})
    filled(table, APPENDS)
    assert read(table)[1] == {"list": 2, "get": APPENDS}
    assert read(table, checkpoint_above=ALWAYS)[1] == {"list": 3, "get": APPENDS}
    first = next(iter(read(table)[0].partitions))
    before = table.store.counters.as_dict()
    forget()
    run_drop(Work(table, RUN), DropOptions(partitions=(first,)))
    # Base: 2 LIST and the log; the probe; a commit of 2 PUT; for the checkpoint 1 LIST, 1 PUT.
    cost = spent(table, before)
    assert (cost["list"], cost["put"]) == (2 + FIRST_CHECK + 1, 2 + 2 + 1)
    state, cost = read(table, checkpoint_above=ALWAYS)
    assert (state.contents, cost) == ({}, {"list": 3, "get": 1})
    filled(table, 1, first=1000)
    assert read(table, checkpoint_above=ALWAYS)[1] == {"list": 3, "get": 2}
    assert_same(table)


def test_a_clean_up_renews_it_with_a_list_and_a_put(store_root: StoreRoot) -> None:
    plain = filled(opened(store_root, "plain", checkpoint={"min_parts": None}), APPENDS)
    large = filled(opened(store_root, "large", checkpoint={"min_parts": 1}), APPENDS)
    costs = []
    for table in (plain, large):
        first = next(iter(read(table)[0].partitions))
        run_drop(Work(table, RUN), DropOptions(partitions=(first,)))
        forget()
        report = run_cleanup(Work(later(table, 2), RUN), CleanupOptions())
        assert report.log_files == APPENDS
        costs.append(Counter(report.requests))
        assert_same(table)
    more = {kind: costs[1][kind] - costs[0][kind] for kind in ("get", "put", "list", "delete")}
    # The one that the drop wrote is fetched to see whether it is of use still: it covers the log
    # file of the drop alone, which stays for another grace.
    assert more == {"get": 1, "put": 1, "list": 1, "delete": 0}
    state, cost = read(large, checkpoint_above=ALWAYS)
    assert (bool(state.covered), cost) == (True, {"list": 3, "get": 1})


def test_a_restore_moves_no_byte_of_a_part(store_root: StoreRoot) -> None:
    table = filled(opened(store_root), APPENDS)
    before = visible_ids(table)
    state = read_snapshot(table.store, table.paths)
    first, parts = next(iter(state.partitions.items()))
    run_drop(Work(table, RUN), DropOptions(partitions=(first,)))
    forget()
    fresh = opened(store_root)
    report = run_restore(Work(fresh, RUN), RestoreOptions(to=0))
    assert visible_ids(table) == before
    counted = report.requests
    # Base: 2 LIST, the drop's log file; transactions 1 (its head, for the time) and 1 (all of it);
    # probe: 2 PUT, 1 GET, 1 DELETE; a copy for each part, and the commit's 2 PUT.
    assert (counted["list"], counted["put"]) == (2 + CHECK, len(parts) + 2 + 2)
    assert counted["get"] == 1 + 2 + 1
    assert counted["bytes_out"] < 10_000
