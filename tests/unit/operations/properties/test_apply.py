"""What an apply changes of what a table says of itself, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import SettingsError, StoreUnsafeError, UsageError
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.properties.run import reconcile, run_apply, show
from firnline.properties.in_force import FIELDS, from_settings
from firnline.store.probe import forget
from tests.support.declared import SMALL, append, begin_at_once, said, told_nothing, under, world_of
from tests.support.world import FaultyStore

RUN = RunIdentity(run_id="r")
HOUR, DAY = 3_600_000, 86_400_000


def test_a_harmless_apply_leaves_alone_what_only_a_person_may_change() -> None:
    """Also where somebody changed it since the run looked: its settings are not in force."""
    world = world_of()
    append(world.table, 1)
    table = under(world, sort_by=["v"], primary_key=["id"], cleanup={"grace": "2h"})
    report = run_apply(table, RUN, harmless=True)
    assert {p.name for p in report.changes} == {"sort_by"}
    found = said(world)
    assert (found.sort_by, found.primary_key, found.grace) == (("v",), (), DAY)


def test_settings_that_do_not_go_with_what_the_table_says_are_not_applied() -> None:
    world = world_of(cluster_by={"columns": ["v"], "run_size": "9GiB"})
    append(world.table, 1)
    merges = {**SMALL, "max_bytes_per_run": "8GiB"}
    with pytest.raises(SettingsError, match="contradict the table's properties"):
        run_apply(under(world, merge=merges, deletes="lazy"), RUN)
    assert said(world).deletes == "eager"


def test_a_table_that_says_nothing_is_made_to_say_all_by_a_person_alone() -> None:
    world = told_nothing()
    table = under(world, sort_by=["v"])
    view = show(table)
    assert {p.name: p.settings for p in view.properties}["append.ttl"] is not None, "what it gets"
    assert reconcile(table, RUN, dry_run=False) is None
    report = run_apply(table, RUN, harmless=True)
    assert (report.changes, report.transaction) == ((), None)
    assert take_base(world.table).properties is None
    assert {p.name for p in run_apply(table, RUN).changes} == set(FIELDS)
    assert said(world) == from_settings(table.settings)


def test_a_second_change_is_applied_after_the_first() -> None:
    world = world_of()
    append(world.table, 1)
    for number, ttl in enumerate(("2h", "3h"), start=1):
        assert run_apply(under(world, append={"ttl": ttl}), RUN).transaction == number
    assert said(world).append_ttl == 3 * HOUR


@pytest.mark.parametrize("born", [0, 1])
def test_a_change_is_applied_too_where_appends_that_began_the_table_disagree(born: int) -> None:
    """The birth record decides between them, and the log alone may say the other."""
    world = world_of(append={"ttl": "2h"})
    births = list(begin_at_once(world, "2h", "3h").values())
    world.store.objects[world.table.paths.birth] = births[born]
    assert said(world).append_ttl == (2, 3)[born] * HOUR
    assert run_apply(under(world, append={"ttl": "4h"}), RUN).transaction == 1
    assert said(world).append_ttl == 4 * HOUR


def test_what_a_process_wants_counts_also_once_the_table_has_told_it_otherwise() -> None:
    world = world_of()
    append(world.table, 1)
    table = take_base(under(world, sort_by=["v"])).table
    assert table.settings.sort_by == ()
    assert run_apply(table, RUN).transaction == 1
    assert said(world).sort_by == ("v",)


@pytest.mark.parametrize(
    ("ttl", "columns"),
    [
        ({"keep": "1d", "column": "v"}, ("id", "v")),
        ({"keep": "1d", "partition": r"d=(?P<day>.+)"}, ("id",)),
    ],
)
def test_markers_get_statistics_of_the_column_by_which_rows_expire(
    ttl: dict[str, str], columns: tuple[str, ...]
) -> None:
    world = world_of()
    append(world.table, 1)
    run_apply(under(world, sort_by=["id"], ttl=ttl), RUN)
    assert said(world).statistics == columns


class Overwrites(FaultyStore):
    """A store that ignores create-only puts."""

    def put_new(self, key: str, data: bytes) -> None:
        self.inner.objects[key] = (data, self.inner.clock.now)


@pytest.mark.parametrize("locking", ["fenced", "pool-only"])
def test_only_a_table_that_the_store_is_to_fence_needs_a_store_that_can(locking: str) -> None:
    world = world_of(locking="pool-only")
    append(world.table, 1)
    table = replace(under(world, locking=locking, deletes="lazy"), store=Overwrites(world.store))
    forget()
    if locking == "fenced":
        with pytest.raises(StoreUnsafeError):
            run_apply(table, RUN)
        assert take_base(under(world)).properties is None
    else:
        assert run_apply(table, RUN).transaction == 1
        assert (said(world).locking, said(world).deletes) == ("pool-only", "lazy")


def test_a_table_without_rows_may_get_any_layout_and_key() -> None:
    world = world_of(primary_key=["id"])
    append(world.table, 1)
    base = take_base(world.table)
    gone = tuple(base.snapshot.live)
    commit(world.table, base, Change("drop", gone, (), Counts(rows_in=1, rows_deleted=1)), RUN)
    wanted = {"primary_key": ["other"], "partition_by": ["day"]}
    assert run_apply(under(world, **wanted), RUN).transaction == 2
    assert (said(world).primary_key, said(world).partition_by) == (("other",), ("day",))


def test_a_table_without_a_key_may_get_another_layout() -> None:
    world = world_of()
    append(world.table, 1)
    assert run_apply(under(world, partition_by=["v"]), RUN).transaction == 1
    assert said(world).partition_by == ("v",)


def test_a_table_gives_up_its_key_in_no_other_layout_than_it_has() -> None:
    world = world_of(primary_key=["id"])
    append(world.table, 1)
    with pytest.raises(UsageError, match="two partitions"):
        run_apply(under(world, primary_key=[], partition_by=["v"]), RUN)
    assert run_apply(under(world, primary_key=[]), RUN).transaction == 1
    assert said(world).primary_key == ()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"primary_key": ["id"], "version": "nothing"}, "version"),
        ({"primary_key": ["id"], "deleted": "nothing"}, "deleted"),
        ({"partition_by": ["day(nothing)"]}, "partition_by"),
        ({"sort_by": ["nothing desc"]}, "sort_by"),
        ({"cluster_by": ["nothing"]}, "cluster_by"),
        ({"statistics": ["nothing"]}, "statistics"),
    ],
)
def test_the_property_is_named_that_names_a_column_which_is_not_there(
    settings: dict[str, Any], field: str
) -> None:
    world = world_of()
    append(world.table, 1)
    with pytest.raises(UsageError, match=f"no column 'nothing', which {field} would name"):
        run_apply(under(world, **settings), RUN)
