from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from firnline.airflow.failures import airflow_failures
from firnline.airflow.merge import (
    merge_arguments,
    plan_figures,
    plan_lines,
    report_figures,
    woken_by_itself,
)
from firnline.errors import PartUnreadableError, StoreUnavailableError
from firnline.history import RunReport
from firnline.log.records import Marker
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.merge import MergeOptions
from firnline.plan.merge import LeftAlone, MergePlan, PlannedGroup
from tests.support.world import make_world


def context(run_id: str, *sources: str | None) -> Any:
    """What a task is given: as much of it as is asked for."""
    return {
        "dag": SimpleNamespace(dag_id="merge__t"),
        "dag_run": SimpleNamespace(triggering_user_name="ana"),
        "ti": SimpleNamespace(try_number=2),
        "run_id": run_id,
        "triggering_asset_events": {
            "t": [SimpleNamespace(source_dag_id=source) for source in sources]
        },
    }


@pytest.mark.parametrize(
    ("run_id", "sources", "expected"),
    [
        ("asset_triggered__x", ["merge__t", "merge__t"], True),
        ("asset_triggered__x", ["merge__t", None], False),
        ("asset_triggered__x", ["merge__t", "loader"], False),
        ("asset_triggered__x", [], False),
        ("manual__x", ["merge__t"], False),
        ("scheduled__x", ["merge__t"], False),
    ],
)
def test_only_a_run_that_nothing_but_its_own_merges_woke_is_idle(
    run_id: str, sources: list[str | None], expected: bool
) -> None:
    assert woken_by_itself(context(run_id, *sources)) is expected


def test_arguments_of_the_job_say_what_and_who() -> None:
    options = MergeOptions(partitions=("day=a b", "--day=c"), max_bytes=2**30)
    arguments = merge_arguments(make_world().settings, options, context("manual__x"))
    assert arguments == [
        "t",
        "--dag-id=merge__t",
        "--run-id=manual__x",
        "--try-number=2",
        "--user=ana",
        "--max-bytes=1073741824",
        "--partition=day=a b",
        "--partition=--day=c",
    ]


def plan_of(groups: int) -> MergePlan:
    return MergePlan(
        seq=7,
        groups=tuple(
            PlannedGroup(f"day={i}", tuple(Marker(p=f"{i}{j}", b=2**20, t=1) for j in range(4)))
            for i in range(groups)
        ),
        left_alone=(LeftAlone("k", "day=x", 1, "is large enough"),),
    )


def test_the_plan_of_a_large_table_stays_short_in_xcom_and_log() -> None:
    figures = plan_figures(plan_of(3000), MergeOptions())
    assert (figures["parts_in"], figures["parts_out"]) == (12_000, 3000)
    assert len(figures["groups"]) == 50
    lines = plan_lines(figures)
    assert lines[0].startswith(
        "as of transaction 7: 12000 parts (11.7 GiB) become 3000, about 15008 requests"
    )
    assert lines[1] == "partition day=0: 4 parts, 4.0 MiB"
    assert lines[-2:] == ["and 2950 groups more", "1 parts left alone: is large enough"]


def test_a_report_is_plain_data() -> None:
    report = RunReport(
        run=RunIdentity(dag_id="merge__t", run_id="r"),
        transactions=(3, 4),
        counts=Counts(parts_in=9, parts_out=2),
        partitions=tuple(f"day={i}" for i in range(80)),
    )
    figures = report_figures(report)
    assert figures["transactions"] == [3, 4]
    assert figures["counts"] == {"parts_in": 9, "parts_out": 2}
    assert (len(figures["partitions"]), figures["partitions_changed"]) == (50, 80)


def test_airflow_tries_again_what_may_pass_and_nothing_else() -> None:
    with pytest.raises(AirflowException) as passing, airflow_failures():
        raise StoreUnavailableError("the store is away", next_step="wait")
    assert not isinstance(passing.value, AirflowFailException)
    with pytest.raises(AirflowFailException, match=r"^part p is cut; drop it$"), airflow_failures():
        raise PartUnreadableError("part p is cut", next_step="drop it")
