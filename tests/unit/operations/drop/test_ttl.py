from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.ttl import preview, run_ttl
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.settings.load import TableSettings
from firnline.state.history import history
from tests.support.log_tables import put_append, snapshot, v1_live
from tests.support.world import World, make_world

RUN = RunIdentity(dag_id="ttl__t", run_id="r")
DAYS = ["ts_day=2023-11-01", "ts_day=2023-11-10", "ts_day=2023-11-14", "ts_day=__null__"]
"""The world's clock stands at 2023-11-14 22:13:20."""


def filled(**settings: Any) -> World:
    world = make_world(partition_by=["day(ts)"], ttl={"keep": "3d"}, **settings)
    put_append(world, *DAYS)
    put_append(world, DAYS[0])
    return world


def test_ttl_drops_what_is_past_in_one_transaction_and_says_why_the_rest_stays() -> None:
    world = filled()
    report = run_ttl(Work(world.table, RUN), TtlOptions())
    assert set(snapshot(world).partitions) == set(DAYS[2:])
    assert v1_live(world) == set(snapshot(world).live)
    assert (report.parts, report.rows, report.transaction) == (3, 30, 1)
    assert report.partitions == tuple(DAYS[:2])
    assert report.kept == {"is not wholly past": 1, "its rows have no ts (null)": 1}
    assert [u.partition for u in report.undecided] == ["ts_day=__null__"]
    assert report.keys == ()
    (header,) = history(world.table)
    assert (header.op, header.run, header.partitions) == ("ttl", RUN, tuple(DAYS[:2]))
    plain: Any = report.to_json()
    assert list(plain["undecided"]) == [
        {
            "partition": "ts_day=__null__",
            "parts": 1,
            "bytes": 100,
            "reason": "its rows have no ts (null)",
        }
    ]


def test_a_second_run_reads_and_commits_nothing() -> None:
    world = filled()
    run_ttl(Work(world.table, RUN), TtlOptions())
    before = dict(world.store.objects)
    again = run_ttl(Work(world.table, RUN), TtlOptions())
    assert (again.transaction, again.parts) == (None, 0)
    assert world.store.objects == before


def test_ttl_goes_by_the_injected_clock() -> None:
    world = filled()
    assert preview(world.table, TtlOptions()).parts == 3
    world.clock.advance(4 * 86_400_000)
    assert preview(world.table, TtlOptions()).parts == 4
    world.clock.now = 0
    assert preview(world.table, TtlOptions()).nothing_to_do


def test_a_dry_run_and_globs_bound_what_goes() -> None:
    world = filled()
    before = dict(world.store.objects)
    report = run_ttl(Work(world.table, RUN), TtlOptions(dry_run=True, partitions=("*-10",)))
    assert (report.partitions, report.transaction, report.dry_run) == ((DAYS[1],), None, True)
    assert world.store.objects == before
    with pytest.raises(UsageError, match="matches 'x'"):
        run_ttl(Work(world.table, RUN), TtlOptions(partitions=("x",)))


def test_by_a_column_the_report_names_the_parts() -> None:
    world = filled()
    settings = TableSettings.model_validate(
        {"name": "t", "root": "memory://bucket/t", "ttl": {"keep": "3d", "column": "ts"}}
    )
    report = run_ttl(Work(replace(world.table, settings=settings), RUN), TtlOptions())
    assert (report.parts, report.kept) == (0, {"has no statistics of ts": 5})
