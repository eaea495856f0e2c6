"""Hazards of tables that are kept near each other, in a folder and on S3 (docs/guarantees.md)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firnline.errors import FindingsError
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    RebuildOptions,
    SweepOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.sweep.run import run_sweep
from tests.support.on_store import RUN, content, engine, filled, later, merge, opened
from tests.support.reading import visible_ids
from tools.s3server import StoreRoot

BESIDE = ("t2", "t-old", "t_log", "t/inner", "t/_data/inner", "t/_data/day=mo/inner")
"""Roots of other tables: with a common beginning, under the table, and where its own parts lie."""


def test_hazard_15_data_kept_under_or_beside_another_tables_prefix_is_not_mixed_in(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """Neither read, nor merged, dropped, cleaned or swept away by the other table."""
    table = filled(opened(store_root), 4)
    others = {name: filled(opened(store_root, name), 2, first=1_000) for name in BESIDE}
    before = {name: content(other) for name, other in others.items()}
    strangers = sum(len(objects) for objects in before.values())
    assert strangers > 4 * len(BESIDE)

    assert visible_ids(table) == Counter(range(16))
    assert {p.partition for p in list_partitions(table)} == {"day=mo", "day=tu"}
    assert merge(table, tmp_path).counts.rows_in == 16
    run_drop(Work(table, RUN), DropOptions(partitions=("day=mo",)))
    options = DeleteOptions(where="id < 9", mode="eager")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path)), options)
    assert visible_ids(table) == Counter([9, 11, 13, 15])
    assert run_cleanup(Work(later(table, 2), RUN), CleanupOptions()).parts
    report = run_sweep(Work(later(table, 5), RUN), SweepOptions())
    assert report.deleted == 0
    under_data = sum(len(before[name]) for name in BESIDE if name.startswith("t/_data"))
    assert sum(report.left.values()) == under_data, "somebody has to approve each of their keys"
    for name, other in others.items():
        assert {k: v for k, v in content(other).items() if k in before[name]} == before[name]
        assert visible_ids(other) == Counter(range(1_000, 1_008))


def test_hazard_15_a_rebuild_asks_before_it_takes_other_tables_parts_in(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    """And a sweep deletes them only when their keys are approved one by one."""
    table = filled(opened(store_root), 2)
    merge(table, tmp_path)
    inner = filled(opened(store_root, "t/_data/inner"), 1)
    lost = [meta.key for meta in table.store.list(table.paths.log_dir)]
    assert all(answer.error is None for answer in table.store.delete_many(lost))
    with pytest.raises(FindingsError, match=r"_data/inner/_data/.*another table"):
        run_rebuild(Work(table, RUN), RebuildOptions())
    assert not list(table.store.list(table.paths.log_dir))
    run_rebuild(Work(table, RUN), RebuildOptions(exclude=("*/inner/*",)))
    assert visible_ids(table) == Counter(range(8))
    assert visible_ids(inner) == Counter(range(4))
