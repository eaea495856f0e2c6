from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from firnline.errors import TooMuchRemovedError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.pages import share_text
from firnline.operations.drop.ttl import preview, run_ttl
from firnline.operations.operation import Work
from firnline.operations.options import TtlOptions
from firnline.operations.registry import TTL
from firnline.settings.load import TableSettings
from firnline.state.history import history
from tests.support.log_tables import put_append, snapshot, v1_live
from tests.support.world import World, make_world

RUN = RunIdentity(dag_id="ttl__t", run_id="r")
DAYS = ["ts_day=2023-11-01", "ts_day=2023-11-10", "ts_day=2023-11-14", "ts_day=__null__"]
"""The world's clock stands at 2023-11-14 22:13:20."""


def filled(most: float = 1, **settings: Any) -> World:
    ttl = {"keep": "3d", "max_removed_fraction": most}
    world = make_world(partition_by=["day(ts)"], ttl=ttl, **settings)
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


# --- more of a table than may go ------------------------------------------------------------------


def counted(rows: Mapping[str, int | None], most: float = 0.5, **options: Any) -> World:
    """A table in which the first day is past, after a run."""
    world = make_world(partition_by=["day(ts)"], ttl={"keep": "3d", "max_removed_fraction": most})
    for day, count in rows.items():
        put_append(world, day, rows=count)
    run_ttl(Work(world.table, RUN), TtlOptions(**options))
    return world


@pytest.mark.parametrize(("most", "goes"), [(0.5, False), (0.75, True), (0.76, True), (1.0, True)])
def test_up_to_a_fraction_of_its_rows_goes_without_force(most: float, goes: bool) -> None:
    rows = {DAYS[0]: 30, DAYS[2]: 10}
    if goes:
        assert set(snapshot(counted(rows, most)).partitions) == {DAYS[2]}
        return
    with pytest.raises(TooMuchRemovedError, match=r"75 % of t is past its .* allows \(50 %\)"):
        counted(rows, most)


def test_a_run_that_is_refused_changes_nothing_and_one_with_force_drops() -> None:
    world = filled(most=0.5)
    before = dict(world.store.objects)
    with pytest.raises(TooMuchRemovedError):
        run_ttl(Work(world.table, RUN), TtlOptions())
    assert world.store.objects == before
    assert preview(world.table, TtlOptions()).is_too_much
    assert not preview(world.table, TtlOptions(force=True)).is_too_much
    assert run_ttl(Work(world.table, RUN), TtlOptions(force=True)).parts == 3


def test_globs_do_not_make_the_table_smaller() -> None:
    """A run over one partition removes all of that, and a fifth of the table."""
    world = filled(most=0.5)
    assert run_ttl(Work(world.table, RUN), TtlOptions(partitions=("*-10",))).parts == 1


def test_of_parts_that_do_not_state_their_rows_bytes_count() -> None:
    with pytest.raises(TooMuchRemovedError, match="50 % of t"):
        counted({DAYS[0]: 1_000, DAYS[2]: None}, most=0.4)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(1.0, "all"), (0.99999, "99.99 %"), (0.5, "50 %"), (0.50001, "50.01 %"), (1 / 3, "33.34 %")],
)
def test_a_fraction_is_all_only_where_no_row_is_left_and_is_rounded_up(
    fraction: float, text: str
) -> None:
    assert share_text(fraction) == text


def test_who_agrees_agrees_to_what_was_shown() -> None:
    """Rows that are added while the question stands are not part of the answer."""
    world = filled(most=0.5)
    shown = preview(world.table, TtlOptions())
    agreed = TTL.load().confirmed
    assert agreed is not None
    put_append(world, DAYS[0], rows=1_000)
    with pytest.raises(TooMuchRemovedError, match=r"was agreed to, and has become past since"):
        run_ttl(Work(world.table, RUN), agreed(TtlOptions(), shown))
    again = agreed(TtlOptions(), preview(world.table, TtlOptions()))
    assert run_ttl(Work(world.table, RUN), again).parts == 4


def test_who_agrees_to_little_agrees_to_no_more_than_may_go_anyway() -> None:
    agreed = TTL.load().confirmed
    assert agreed is not None
    assert agreed(TtlOptions(), preview(filled().table, TtlOptions())) == TtlOptions()


def test_a_plan_with_force_states_the_setting() -> None:
    figures = preview(filled(most=0.5).table, TtlOptions(force=True)).to_json()
    assert (figures["max_removed_fraction"], figures["too_much"]) == (0.5, False)
