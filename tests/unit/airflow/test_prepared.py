"""Who is asked about a prepared change decides on exactly that change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.sdk import DAG

from firnline.airflow import prepared, versions
from firnline.airflow.evidence import question
from firnline.airflow.prepared import PREPARED, ApprovePrepared, CommitPrepared, totals
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowSkipException
from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.options import RewriteOptions
from firnline.operations.prepared.evidence import Evidence, PartitionDifference, Sample
from firnline.operations.prepared.waiting import WaitingChange
from tests.support.airflow_context import run_context
from tests.support.world import make_world

REWRITE = RewriteWork()
SETTINGS = make_world().table.settings
EVIDENCE = Evidence(
    keys=("id",),
    partitions=(
        PartitionDifference(
            partition="day=a|b", rows_before=1200, rows_after=1000, removed=200, added=0, changed=7
        ),
    ),
    partition_count=1,
    rows_before=1200,
    rows_after=1000,
    removed=200,
    changed=7,
    columns={"name": 7},
    samples=(Sample(partition="", kind="changed", before={"id": "1"}, after={"id": None}),),
    assertions=("select true",),
)
CHANGE = WaitingChange(
    id="018bcfe5-680a-7000-8000-000000000006",
    t=0,
    seq=4,
    keep=1,
    run=RunIdentity(),
    options={"where": "id > 1"},
    partitions=("day=a|b",),
    parts=1,
    bytes=2048,
    evidence=EVIDENCE,
    begun=False,
)


def tasks() -> tuple[ApprovePrepared, CommitPrepared]:
    with DAG("rewrite_partitions__t", schedule=None):
        table = OneTable(SETTINGS)
        approve = ApprovePrepared(task_id="approve", work=REWRITE, table=table)
        commit = CommitPrepared(task_id="commit", work=REWRITE, table=table)
        approve >> commit
    return approve, commit


def test_the_question_shows_the_evidence_as_tables() -> None:
    subject, body = question(SETTINGS, msgspec.to_builtins(CHANGE))
    assert subject == "Rewrite rows (200 removed, 7 changed) of table t?"
    assert "| `day=a\\|b` | 1,200 | 1,000 | 200 | 0 | 7 |" in body
    assert "| `name` | 7 |" in body
    assert "| changed | `(none)` | `id=1 → null` |" in body
    assert "- `select true`" in body


def test_without_a_key_no_row_is_said_to_change() -> None:
    shown = msgspec.structs.replace(EVIDENCE, keys=(), added=3)
    _, body = question(
        SETTINGS, msgspec.to_builtins(msgspec.structs.replace(CHANGE, evidence=shown))
    )
    assert "| rows before | after | removed | added |" in body
    assert "| `day=a\\|b` | 1,200 | 1,000 | 200 | 0 |\n" in body
    assert "a changed row is one removed and one added" in body


def test_without_the_param_nobody_is_asked() -> None:
    approve, _ = tasks()
    with pytest.raises(AirflowSkipException, match="commits without a question"):
        approve.execute(run_context(REWRITE, {"where": "id > 1"}))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"by": "bo", "timed_out": False}, "rejected by bo"),
        ({"by": None, "timed_out": True}, "nobody answered in time"),
    ],
    ids=["no", "no answer"],
)
def test_a_rejection_discards_the_change_that_was_shown(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], why: str
) -> None:
    approve, _ = tasks()
    earlier: Any = {f"approve/{PREPARED}": totals(CHANGE)}
    context = run_context(REWRITE, {"approve": True}, **earlier)
    told = {"approved": False, **answer, **approve.told(context)}
    assert told["prepared"] == CHANGE.id
    discarded: list[Any] = []

    def discard(_table: object, change: str, _run: object, why: str) -> Any:
        discarded.append((change, why))
        return SimpleNamespace(parts=1)

    monkeypatch.setattr(prepared, "open_in_task", lambda _: make_world().table)
    monkeypatch.setattr("firnline.operations.prepared.run.discard_prepared", discard)
    approve.rejected(context, told)
    assert discarded == [(CHANGE.id, why)]


def test_nothing_is_committed_without_an_approval_of_a_change() -> None:
    with pytest.raises(UsageError, match="nobody approved a prepared change in run manual__1"):
        prepared._approved(run_context(REWRITE, approve={"approved": True}))


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no questions")
def test_a_run_that_asks_prepares_and_one_that_does_not_has_no_evidence() -> None:
    params = {"where": "id > 1", "assert": ["select true"], "answer_within": "2h"}
    asked = REWRITE.options({**params, "approve": True}, dry_run=False)
    assert asked == RewriteOptions(
        where="id > 1", prepare=True, assertions=("select true",), keep=26 * 3_600_000
    )
    assert not REWRITE.completes(asked)
    with pytest.raises(UsageError, match="are about what is prepared"):
        REWRITE.options(params, dry_run=False)
    assert REWRITE.completes(REWRITE.options({"where": "id > 1"}, dry_run=False))
