from __future__ import annotations

import logging
from typing import Any

import pytest

from firnline.airflow.versions import ParamValidationError
from firnline.airflow.works import RestoreWork
from firnline.errors import UsageError
from firnline.operations.options import RestoreOptions
from tests.support.airflow_context import run_context
from tests.support.histories import RUN, drop, filled
from tests.support.reading import visible_ids

RESTORE = RestoreWork()
WHERE = {"to": 0, "partitions": ["day=0"]}


def asked(**conf: Any) -> RestoreOptions:
    return RESTORE.parse_params(run_context(RESTORE, {**WHERE, **conf}))


def test_a_restore_by_hand_only_plans_unless_told_otherwise() -> None:
    assert asked() == RestoreOptions(to=0, partitions=("day=0",), dry_run=True)
    assert asked(to=41, exact=True, dry_run=False) == RestoreOptions(
        to=41, partitions=("day=0",), exact=True
    )


def test_the_whole_table_is_restored_only_where_somebody_says_so() -> None:
    nothings: tuple[list[str] | None, ...] = (None, [])
    for nothing in nothings:
        with pytest.raises(UsageError, match="a restore needs partitions"):
            asked(partitions=nothing)
    assert asked(partitions=["*"]).partitions == ("*",)


@pytest.mark.parametrize(("name", "value"), [("to", None), ("to", -1), ("to", "41"), ("exact", 1)])
def test_a_value_of_the_wrong_form_is_refused_before_there_is_a_run(name: str, value: Any) -> None:
    with pytest.raises(ParamValidationError):
        RESTORE.all_params()[name].resolve(value)


def test_plan_and_report_say_what_comes_back() -> None:
    world = filled()
    drop(world, "day=0")
    plan = RESTORE.preview(world.table, asked())
    page = RESTORE.plan_page(world.table, RESTORE.plan_figures(plan))
    said = list(page.lines())
    assert said[0].startswith("restored: 4 parts, 12 rows, ")
    assert said[2:] == ["stays: 0 parts", "partitions: day=0", "undone: transaction 1"]
    assert page.sentence.startswith("t would go back to transaction 0: 4 parts of 12 rows (")
    assert page.sentence.endswith(
        ") would come back, 0 parts of 0 rows (0 B) would go; undone: transaction 1"
    )
    report = RESTORE.run(world.table, asked(dry_run=False), RUN, lambda _: None)
    done = RESTORE.report_page(report.to_json())
    assert done.sentence.startswith("restored: 4 parts of 12 rows (")
    assert done.sentence.endswith("; removed: 0 parts of 0 rows (0 B)")
    assert "transaction: 2" in done.lines()
    assert visible_ids(world.table).total() == 24


def test_the_log_of_the_plan_offers_the_newest_transactions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = filled()
    for day in range(2):
        drop(world, f"day={day}")
    caplog.set_level(logging.INFO)
    with pytest.raises(UsageError):
        RESTORE.preview(world.table, asked(to=99))
    first, *lines = caplog.messages
    assert first == "to restore to, the newest first:"
    assert [line.partition(",")[0] for line in lines] == ["transaction 2", "transaction 1"]
    assert all(" UTC: drop, " in line for line in lines)
