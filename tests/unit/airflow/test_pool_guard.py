"""What the plugin does with a run whose pool is not as it must be, without a scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import pool_guard
from firnline.operations.pools import NO_TABLE


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Problems of the runs that were ended."""
    settings = tmp_path / "tables.yaml"
    settings.write_text(
        "tables:\n  safe: {root: 's3://b/safe'}\n"
        "  unsafe: {root: 's3://b/unsafe', locking: pool-only}\n"
    )
    monkeypatch.setenv("FIRNLINE_TABLES", str(settings))
    found: list[str] = []
    monkeypatch.setattr(pool_guard, "_fail", lambda _run, problem: found.append(problem))
    return found


def starts(
    monkeypatch: pytest.MonkeyPatch,
    dag_id: str,
    slots: dict[str, int],
    conf: dict[str, Any] | None = None,
    *held: str,
) -> str:
    """The note of a run that starts while Airflow has these pools, and its tasks hold some."""
    monkeypatch.setattr(pool_guard, "read_slots", lambda: slots)
    monkeypatch.setattr(pool_guard, "read_pools", lambda *_: {"default_pool", *held})
    run: Any = SimpleNamespace(dag_id=dag_id, run_id="manual__1", note=None, conf=conf)
    pool_guard.on_dag_run_running(run, "")
    return run.note or ""


def test_a_run_whose_pool_is_missing_or_closed_is_ended(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    """Its tasks would wait for ever, and nobody would be told."""
    assert "does not exist" in starts(monkeypatch, "merge__safe", {"safe.cleanup": 1})
    assert "has no slot" in starts(monkeypatch, "merge__safe", {"safe.merge": 0})
    assert len(ended) == 2


def test_a_pool_that_is_too_wide_ends_a_run_only_where_nothing_else_excludes(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    assert "has 2 slots" in starts(monkeypatch, "merge__safe", {"safe.merge": 2})
    assert ended == []
    assert "has 2 slots" in starts(monkeypatch, "merge__unsafe", {"unsafe.merge": 2})
    assert len(ended) == 1


def test_a_run_with_its_pool_and_one_that_is_not_ours_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    assert starts(monkeypatch, "merge__safe", {"safe.merge": 1}) == ""
    assert starts(monkeypatch, "somebody_elses", {}) == ""
    assert ended == []


def test_a_run_on_any_table_is_ended_unless_its_tasks_hold_the_pool_of_its_table(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    pools, conf = {"safe.merge": 1, "unsafe.merge": 2, NO_TABLE: 0}, {"table": "safe"}
    assert starts(monkeypatch, "restore", pools, conf, "safe.merge") == ""
    assert ended == []
    note = starts(monkeypatch, "restore", pools, conf, NO_TABLE)
    assert "the tasks of this run did not get the pool of table safe" in note
    assert "install the package firnline wherever Airflow runs" in note
    assert "has 2 slots" in starts(monkeypatch, "restore", pools, {"table": "unsafe"})
    assert len(ended) == 2
