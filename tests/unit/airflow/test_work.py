from __future__ import annotations

from typing import Any

import pytest

from firnline.airflow.merge import MergeWork
from firnline.airflow.runs import run_identity
from firnline.airflow.tables import OneTable
from firnline.airflow.work import Work
from firnline.airflow.works import CleanupWork, TtlWork
from firnline.errors import UsageError
from tests.support.airflow_context import run_context
from tests.support.world import make_world

MERGE, CLEANUP, TTL = MergeWork(), CleanupWork(), TtlWork()


@pytest.mark.parametrize(
    ("work", "pool"), [(MERGE, "t.merge"), (CLEANUP, "t.cleanup"), (TTL, "t.merge")]
)
def test_every_kind_of_work_has_a_pool_of_its_table(work: Work[Any], pool: str) -> None:
    lock = OneTable(make_world().settings).lock(work.operation)
    assert lock == {"pool": pool, "pool_slots": 1}


def test_beside_merges_that_share_a_pool_everything_else_takes_all_of_its_slots() -> None:
    table = OneTable(make_world(partition="d=.*", merge={"slots": 3}).settings)
    taken = [table.lock(work.operation)["pool_slots"] for work in (MERGE, TTL, CLEANUP)]
    assert taken == [1, 3, 1]


@pytest.mark.parametrize(
    ("run_type", "conf", "expected"),
    [
        ("manual", {}, True),
        ("manual", {"dry_run": False}, False),
        ("operator_triggered", {}, True),
        ("backfill", {}, True),
        ("scheduled", {}, False),
        ("asset_triggered", {}, False),
        ("scheduled", {"dry_run": True}, True),
    ],
)
@pytest.mark.parametrize("work", [CLEANUP, TTL], ids=["clean-up", "ttl"])
def test_what_cannot_be_taken_back_is_a_dry_run_for_people_and_not_for_the_clock(
    work: Work[Any], run_type: str, conf: dict[str, Any], expected: bool
) -> None:
    assert work.parse_params(run_context(work, conf, run_type)).dry_run is expected


def test_a_merge_is_a_dry_run_only_when_told_so() -> None:
    assert MERGE.parse_params(run_context(MERGE)).dry_run is False
    assert MERGE.parse_params(run_context(MERGE, {"dry_run": True})).dry_run is True


def test_a_mistyped_param_is_refused_instead_of_ignored() -> None:
    with pytest.raises(UsageError) as merge:
        MERGE.parse_params(run_context(MERGE, {"dryrun": True, "max": "1GiB"}))
    assert str(merge.value) == (
        "a merge has no param dryrun, max; use partitions, max_bytes, full, dry_run"
    )
    with pytest.raises(UsageError, match="a clean-up has no param partitions; use max_deletes"):
        CLEANUP.parse_params(run_context(CLEANUP, {"partitions": []}, "scheduled"))


def test_a_run_says_who_it_is() -> None:
    run = run_identity(run_context(TTL))
    assert (run.dag_id, run.run_id, run.try_number, run.user) == ("ttl__t", "manual__1", 1, "ana")
    assert run.host
