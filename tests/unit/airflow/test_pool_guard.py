"""What the plugin does with a run whose pool is not as it must be, without a scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import failing, pool_guard
from firnline.operations.pools import NO_TABLE


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Problems of the runs that were ended."""
    settings = tmp_path / "tables.yaml"
    settings.write_text(
        "tables:\n  safe: {root: 's3://b/safe'}\n"
        "  unsafe: {root: 's3://b/unsafe', locking: pool-only}\n"
        "  shared: {root: 's3://b/shared', partition_by: [d], merge: {slots: 2}}\n"
        "  away: {root: 's3://b/away', spark: {deferrable: true, "
        "package: 's3://b/1.2-0123456789ab', glue: {job: firnline}}}\n"
    )
    monkeypatch.setenv("FIRNLINE_TABLES", str(settings))
    found: list[str] = []
    monkeypatch.setattr(
        failing, "fail", lambda _run, _table, _reason, problem: found.append(problem)
    )
    return found


def starts(
    monkeypatch: pytest.MonkeyPatch,
    dag_id: str,
    slots: dict[str, int],
    conf: dict[str, Any] | None = None,
    *,
    tagged: bool = True,
    **takes: int,
) -> str:
    """The note of a run that starts while Airflow has these pools, and its tasks take slots.

    ``takes`` has the pools with ``_`` for ``.``; ``tagged``: the DAG has our tag.
    """
    held = {name.replace("_", ".", 1): count for name, count in takes.items()}
    monkeypatch.setattr("firnline.airflow.ours.has_tag", lambda _: tagged)
    monkeypatch.setattr(pool_guard, "read_slots", lambda: slots)
    monkeypatch.setattr(pool_guard, "read_uncounted", lambda: {"away.merge", "safe.merge"})
    monkeypatch.setattr(pool_guard, "read_pools", lambda *_: {"default_pool": 1, **held})
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


@pytest.mark.parametrize("dag_id", ["verify__orders", "restore__backup", "merge__safe", "merge"])
def test_a_run_of_somebody_else_s_dag_with_a_name_like_ours_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, ended: list[str], dag_id: str
) -> None:
    conf = {"table": "safe"}
    assert starts(monkeypatch, dag_id, {}, conf, tagged=False) == ""
    assert ended == []
    assert "does not exist" in starts(monkeypatch, dag_id, {}, conf)


def test_a_run_on_any_table_is_ended_unless_its_tasks_hold_the_pool_of_its_table(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    pools, conf = {"safe.merge": 1, "unsafe.merge": 2, NO_TABLE: 1}, {"table": "safe"}
    assert starts(monkeypatch, "restore", pools, conf, safe_merge=1) == ""
    assert ended == []
    note = starts(monkeypatch, "restore", pools, conf, firnline_no_table=1)
    assert "the tasks of this run did not get the pool of table safe" in note
    assert "install the package firnline wherever Airflow runs, set FIRNLINE_TABLES there" in note
    assert "has 2 slots" in starts(monkeypatch, "restore", pools, {"table": "unsafe"})
    assert len(ended) == 2


def test_a_merge_goes_on_in_a_pool_that_has_fewer_slots_than_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    note = starts(monkeypatch, "merge__shared", {"shared.merge": 1}, None, shared_merge=1)
    assert "has 1 slot instead of 2, so fewer merges run at once" in note
    assert starts(monkeypatch, "merge__shared", {"shared.merge": 2}, None, shared_merge=1) == ""
    assert ended == []


@pytest.mark.parametrize(("dag_id", "conf"), [("ttl__shared", {}), ("erase", {"table": "shared"})])
def test_what_needs_more_slots_than_its_pool_has_is_ended_instead_of_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch, ended: list[str], dag_id: str, conf: dict[str, Any]
) -> None:
    note = starts(monkeypatch, dag_id, {"shared.merge": 1}, conf, shared_merge=2)
    assert "the pool shared.merge has 1 slot and a task of this run takes 2" in note
    assert "import the pools with `firnline pools > pools.json`" in note
    assert ended == [note.removeprefix("firnline: ").removesuffix(".")]
    assert starts(monkeypatch, dag_id, {"shared.merge": 2}, conf, shared_merge=2) == ""
    assert len(ended) == 1


def test_a_run_of_a_dag_from_before_the_change_is_ended_where_it_would_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    """The settings and the pool say 1 already, and the task still takes 3."""
    note = starts(monkeypatch, "ttl__safe", {"safe.merge": 1}, {}, safe_merge=3)
    assert "merge.slots was changed, and the pool or the DAG still says what it was before" in note
    assert len(ended) == 1


def test_a_pool_with_more_slots_than_merges_share_is_named_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    conf = {"table": "shared"}
    note = starts(monkeypatch, "erase", {"shared.merge": 4}, conf, shared_merge=2)
    assert (
        "has 4 slots instead of 2, so what is to run alone on this table may meet a merge" in note
    )
    assert ended == []


def test_with_settings_that_cannot_be_read_only_a_pool_that_nothing_runs_in_ends_a_run(
    monkeypatch: pytest.MonkeyPatch, ended: list[str], tmp_path: Path
) -> None:
    (tmp_path / "tables.yaml").write_text("tables: {shared: {}}")
    assert starts(monkeypatch, "merge__shared", {"shared.merge": 2}) == ""
    assert ended == []
    assert "does not exist" in starts(monkeypatch, "merge__shared", {})
    assert "has no slot" in starts(monkeypatch, "merge__shared", {"shared.merge": 0})
    assert len(ended) == 2


def test_a_pool_that_does_not_count_deferred_tasks_ends_a_run_that_may_be_put_off(
    monkeypatch: pytest.MonkeyPatch, ended: list[str]
) -> None:
    note = starts(monkeypatch, "merge__away", {"away.merge": 1}, away_merge=1)
    assert "the pool away.merge does not count deferred tasks" in note
    assert len(ended) == 1
    assert starts(monkeypatch, "merge__safe", {"safe.merge": 1}, safe_merge=1) == ""
