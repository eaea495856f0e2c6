from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.airflow.versions import ParamValidationError
from firnline.airflow.works import ReplaceWork
from firnline.errors import UsageError
from firnline.operations.options import ReplaceOptions
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.world import make_world

REPLACE = ReplaceWork()
INTERVAL = {"start": 0, "end": "30"}


def asked(**conf: Any) -> ReplaceOptions:
    return REPLACE.parse_params(run_context(REPLACE, {**INTERVAL, **conf}))


def test_a_replace_by_hand_only_plans_unless_told_otherwise() -> None:
    files = ["s3://b/staged/"]
    assert asked(files=files) == ReplaceOptions(
        start=0, end="30", files=("s3://b/staged/",), dry_run=True
    )
    more = {"column": "k", "equal": {"c": 7}, "nothing": True, "mode": "lazy", "dry_run": False}
    assert asked(**more) == ReplaceOptions(
        column="k", start=0, end="30", equal={"c": 7}, nothing=True, mode="lazy"
    )


def test_the_plan_says_what_goes_unread_and_what_stays() -> None:
    world = make_world(sort_by=["k"])
    fill(world.table, 2)
    plan = REPLACE.preview(world.table, asked(column="k", start=-5, end=500, nothing=True))
    said = list(REPLACE.plan_page(world.table, REPLACE.plan_figures(plan)).lines())
    assert said[0].startswith("partition day=a: to read 2, to drop 0, bytes ")
    assert said[-3] == "To replace [-5, 500) of k in t: between 0 and 200 rows would go."
    assert said[-2] == "No row would come instead."
    assert said[-1].startswith("4 parts would be read (")  # of writers who give no statistics


@pytest.mark.parametrize(
    ("dropped", "cut", "text"),
    [
        (1, 0, "1 row would go"),
        (4_000, 1_234, "between 4,000 and 5,234 rows would go"),
        (7, None, "at least 7 rows would go, and some parts do not state theirs"),
    ],
)
def test_a_dry_run_says_how_many_rows_would_go(dropped: int, cut: int | None, text: str) -> None:
    world = make_world(sort_by=["k"])
    fill(world.table, 2)
    plan = REPLACE.preview(world.table, asked(column="k", start=-5, end=500, nothing=True))
    figures = {**REPLACE.plan_figures(plan), "rows_to_drop": dropped, "rows_cut": cut}
    page = REPLACE.plan_page(world.table, figures)
    said = f"to replace [-5, 500) of k in t: {text}; no row would come instead"
    assert page.sentence == said


@pytest.mark.long
def test_a_table_that_is_not_there_yet_has_a_plan(tmp_path: Path) -> None:
    new = tmp_path / "new.parquet"
    pq.write_table(pa.table({"k": [1, 2]}), new)
    table = make_world().table
    plan = REPLACE.preview(table, asked(column="k", files=[str(new)]))
    said = REPLACE.plan_page(table, REPLACE.plan_figures(plan)).lines()
    assert "2 new rows would come, and all lie inside by their footers." in said


def test_the_plan_fails_for_files_that_the_run_would_refuse() -> None:
    with pytest.raises(UsageError, match=r"there is no file /nowhere\.parquet"):
        REPLACE.preview(make_world().table, asked(column="k", files=["/nowhere.parquet"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start", None),
        ("end", ""),
        ("files", "s3://b/staged/"),
        ("equal", "client=1"),
        ("equal", {"client": [1]}),
        ("mode", "gentle"),
        ("nothing", "yes"),
    ],
)
def test_airflow_refuses_params_of_the_wrong_form(name: str, value: object) -> None:
    with pytest.raises(ParamValidationError):
        REPLACE.params()[name].resolve(value)
