"""The task group of the usual maintenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import maintain
from firnline.errors import UsageError
from tests.support.their_dags import tables

SETTINGS = """
tables:
  events: {{root: 'file://{folder}/e', ttl: {{keep: 1h, column: ts}}}}
  a.b: {{root: 'file://{folder}/a'}}
"""


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables(tmp_path, monkeypatch, SETTINGS)


def chain(*args: Any, **more: Any) -> list[tuple[str, list[str]]]:
    """The tasks of the group with those after them."""
    with DAG("etl", schedule=None) as dag:
        maintain(*args, **more)
    return [(t.task_id, sorted(t.downstream_task_ids)) for t in dag.tasks]


def test_what_a_table_needs_is_done_one_after_the_other() -> None:
    assert chain("events", verify=True) == [
        ("maintain_events.ttl", ["maintain_events.merge"]),
        ("maintain_events.merge", ["maintain_events.cleanup"]),
        ("maintain_events.cleanup", ["maintain_events.verify"]),
        ("maintain_events.verify", []),
    ]
    assert chain("a.b") == [
        ("maintain_a_b.merge", ["maintain_a_b.cleanup"]),
        ("maintain_a_b.cleanup", []),
    ]


def test_an_operation_takes_arguments_and_so_do_all_of_them() -> None:
    with DAG("etl", schedule=None) as dag:
        maintain(
            "a.b",
            merge={"max_bytes": "1GiB", "queue": "large"},
            verify=True,
            group_id="keep",
            queue="small",
            dry_run=True,
        )
    found: list[Any] = [dag.get_task(f"keep.{n}") for n in ("merge", "cleanup", "verify")]
    merge, cleanup, verify = found
    assert (merge.queue, cleanup.queue, verify.queue) == ("large", "small", "small")
    assert merge.options["max_bytes"] == "1GiB"
    assert cleanup.options["dry_run"] is True


def test_a_group_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"nothing to do on table a\.b"):
        chain("a.b", merge=False, cleanup=False)
