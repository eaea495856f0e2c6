from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.merge import MergeWork, woken_by_itself
from firnline.airflow.submit import job_arguments
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.errors import PartUnreadableError, StoreUnavailableError, UsageError
from firnline.log.records import Marker
from firnline.operations.groups import PlannedGroup
from firnline.operations.merge.left import LeftParts
from firnline.operations.merge.plan import MergePlan
from firnline.operations.options import MergeOptions
from tests.support.world import make_world

MERGE = MergeWork()


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
        ("asset_triggered__x", ["merge__t", "tombstone_cleanup__t", "erase__t"], True),
        ("asset_triggered__x", ["merge__t", None], False),
        ("asset_triggered__x", ["merge__t", "loader"], False),
        ("asset_triggered__x", ["merge__other"], False),
        ("asset_triggered__x", ["erase__t", "import__t"], False),
        ("asset_triggered__x", ["import"], False),
        ("asset_triggered__x", [], False),
        ("manual__x", ["merge__t"], False),
        ("scheduled__x", ["merge__t"], False),
    ],
)
def test_only_a_run_that_nothing_but_our_own_dags_woke_is_idle(
    run_id: str, sources: list[str | None], expected: bool
) -> None:
    assert woken_by_itself(context(run_id, *sources), "t") is expected


def test_arguments_of_the_job_say_what_and_who() -> None:
    options = MergeOptions(partitions=("day=a b", "--day=c"), max_bytes=2**30, full=True)
    arguments = job_arguments(make_world().settings, context("manual__x"))
    assert arguments == [
        "t",
        "--dag-id=merge__t",
        "--run-id=manual__x",
        "--try-number=2",
        "--user=ana",
    ]
    assert json.loads(MERGE.job_options(options) or "") == {
        "partitions": ["day=a b", "--day=c"],
        "max_bytes": 2**30,
        "full": True,
        "dry_run": False,
    }


def plan_of(groups: int) -> MergePlan:
    return MergePlan(
        seq=7,
        groups=tuple(
            PlannedGroup(f"day={i}", tuple(Marker(p=f"{i}{j}", b=2**20, t=1) for j in range(4)))
            for i in range(groups)
        ),
        left_alone=(LeftParts("day=x", "is large enough", 1, 1),),
    )


def test_the_plan_of_a_large_table_stays_short_in_xcom_and_log() -> None:
    whole = MERGE.plan_figures(plan_of(3000))
    figures = shortened(whole)
    assert (figures["parts_in"], figures["parts_out"]) == (12_000, 3000)
    assert (len(figures["groups"]), figures["groups_in_all"]) == (50, 3000)
    page = MERGE.plan_page(make_world().table, whole)
    lines = list(page.lines())
    assert lines[0] == "partition day=0: parts in 4, parts out 1, bytes 4.0 MiB"
    assert lines[50:53] == [
        "and 2,950 rows more",
        "3000 in all: parts in 12,000, parts out 3,000, bytes 11.7 GiB",
        "parts left alone 1: reason is large enough",
    ]
    assert lines[53:] == [f"{page.sentence}."]
    assert page.sentence.startswith("12,000 parts would become 3,000: about 11.7 GiB to read")


def test_a_group_of_several_tasks_says_so() -> None:
    parts = tuple(Marker(p=f"{n}", b=2**30, t=1) for n in range(4))
    group = PlannedGroup("d=1", parts, outputs=4, slices=4, sliced_by=("id",))
    figures = MERGE.plan_figures(MergePlan(seq=7, groups=(group,), left_alone=()))
    assert figures["tasks"] == 4
    page = MERGE.plan_page(make_world().table, figures)
    assert "1 group would be up to 4 tasks, because some are above" in page.sentence


def test_a_report_says_what_became_of_what() -> None:
    counts = {"parts_in": 9, "parts_out": 2, "rows_in": 5, "rows_out": 5, "bytes_in": 2**20}
    (line,) = MERGE.report_lines({"transactions": [3, 4], "counts": counts})
    assert line == ("9 parts (1.0 MiB, 5 rows) became 2 parts (0 B, 5 rows) in 2 transactions")


def test_the_defaults_merge_the_whole_table_within_its_settings() -> None:
    defaults = {name: param.value for name, param in MERGE.all_params().items()}
    assert MERGE.options(defaults, dry_run=False) == MergeOptions()


def test_what_is_asked_for_reaches_the_operation() -> None:
    asked = {"partitions": ["day=a", "day=b*"], "max_bytes": "1.5GiB"}
    options = MERGE.options(asked, dry_run=True)
    assert options.partitions == ("day=a", "day=b*")
    assert options.max_bytes == 3 * 2**29
    assert options.dry_run is True


def test_a_bound_that_merges_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="max_bytes is 0"):
        MERGE.options({"max_bytes": "0B"}, dry_run=False)


def test_airflow_tries_again_what_may_pass_and_nothing_else() -> None:
    with pytest.raises(AirflowException) as passing, airflow_failures():
        raise StoreUnavailableError("the store is away", next_step="wait")
    assert not isinstance(passing.value, AirflowFailException)
    with pytest.raises(AirflowFailException, match=r"^part p is cut; drop it$"), airflow_failures():
        raise PartUnreadableError("part p is cut", next_step="drop it")
