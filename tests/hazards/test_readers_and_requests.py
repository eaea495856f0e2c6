"""Hazards of listings, and of what runs cost, in a folder and on S3 (docs/guarantees.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, RewriteOptions, SweepOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.sweep.run import run_sweep
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.beside import Beside
from tests.support.on_store import RUN, Reads, content, engine, filled, later, merge, opened
from tests.support.reading import part_rows
from tools.s3server import StoreRoot


def test_hazard_18_a_reader_with_a_listing_from_just_before_clean_up_gets_all_its_files(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Log files went between its listing and its requests, those with all rows among them.

    A merge has folded them meanwhile: the reader lists again, and is told of parts that exist.
    """
    for everything in (True, False):
        for when in count():
            table = filled(opened(store_root, f"t-{everything}-{when}"), 2)
            merge(table, tmp_path)
            filled(table, 1, first=8)
            reports: list[Any] = []

            def pass_by(table: Table = table, reports: list[Any] = reports) -> None:
                merge(table, tmp_path)
                reports.append(run_cleanup(Work(later(table, 2), RUN), CleanupOptions()))

            store = Beside(table.store, when=when, act=pass_by)
            state = read_snapshot(store, table.paths, everything=everything)
            found = Counter(row["id"] for key in state.live for row in part_rows(table, key))
            assert found == Counter(range(12))
            if not store.met:
                assert when >= 2, "before the listing, and before each look behind it"
                break
            assert (reports[0].parts, reports[0].log_files) == (8, 4)


def test_hazard_18_a_reader_from_before_the_replacement_keeps_its_files_for_the_grace(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """A clean-up right after a merge deletes nothing that was live when the reader listed."""
    table = filled(opened(store_root), 3)
    state = read_snapshot(table.store, table.paths)
    merge(table, tmp_path)
    run_rewrite(Work(table, RUN, lambda: engine(table, tmp_path)), RewriteOptions(where="id > 1"))
    assert run_cleanup(Work(table, RUN), CleanupOptions()).parts == 0
    found = Counter(row["id"] for key in state.live for row in part_rows(table, key))
    assert found == Counter(range(12))
    assert run_cleanup(Work(later(table, 2), RUN), CleanupOptions()).parts > len(state.live)


def spent(table: Table) -> int:
    counted = table.store.counters.as_dict()
    return sum(counted[kind] for kind in ("get", "put", "list", "delete", "head"))


def reading(table: Table, run: Callable[[Table], object]) -> tuple[int, Counter[str]]:
    """Requests of a run, and how often it read each log file and each part."""
    store = Reads(table.store)
    before = spent(table)
    run(replace(table, store=store))
    return spent(table) - before, Counter(key for key in store.read if "/_probe/" not in key)


def test_hazard_19_requests_stay_linear_and_no_file_is_read_twice(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Of a merge and of a clean-up, for twice and four times as many appends."""
    merging, cleaning = [], []
    for appends in (5, 10, 20):
        table = filled(opened(store_root, f"t{appends}"), appends)
        requests, read = reading(table, lambda table: merge(table, tmp_path))
        assert set(read.values()) == {1}
        assert len(read) == 3 * appends, "the log files, and two parts of each"
        merging.append(requests)
        requests, read = reading(
            later(table, 2), lambda table: run_cleanup(Work(table, RUN), CleanupOptions())
        )
        assert not any("/_data/" in key for key in read)
        # One base before the deletion and one after it: what is deleted is read once.
        assert sum(read.values()) == appends + 1 + 1
        cleaning.append(requests)
    for found in (merging, cleaning):
        assert found[2] - found[1] == 2 * (found[1] - found[0])
    assert merging[1] - merging[0] == 3 * 5


def test_hazard_19_a_run_with_nothing_to_do_writes_nothing(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Nor deletes; not once and not ever, however much later it runs."""
    table = filled(opened(store_root), 3)
    merge(table, tmp_path)
    for days in (2, 4, 6):
        run_cleanup(Work(later(table, days), RUN), CleanupOptions())
    before = content(table)
    counted = table.store.counters.as_dict()
    for days in (6, 8, 400):
        at = later(table, days)
        report = run_cleanup(Work(at, RUN), CleanupOptions())
        assert (report.parts, report.log_files, report.transactions) == (0, 0, ())
        assert merge(at, tmp_path).groups == 0
        assert run_sweep(Work(at, RUN), SweepOptions()).orphans == 0
    after = table.store.counters.as_dict()
    assert content(table) == before
    assert [after[kind] - counted[kind] for kind in ("put", "delete")] == [0, 0]
