"""A run with a number that Airflow cannot hand on fails at its start, with a note and an alert."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import conf_guard


def starts(
    monkeypatch: pytest.MonkeyPatch, conf: object, dag_id: str = "merge"
) -> tuple[str | None, str | None, list[tuple[Any, ...]]]:
    """State and note of a run that starts, and what its table is told."""
    told: list[tuple[Any, ...]] = []
    states: list[str] = []
    monkeypatch.setattr("firnline.airflow.watch.call_soon", lambda *call: told.append(call))
    monkeypatch.setattr("firnline.airflow.ours.has_tag", lambda _: dag_id != "merge__others")
    run: Any = SimpleNamespace(
        dag_id=dag_id, run_id="manual__1", note=None, conf=conf, set_state=states.append
    )
    conf_guard.on_dag_run_running(run, "")
    return next(iter(states), None), run.note, told


@pytest.mark.parametrize(
    "conf",
    [
        {"table": "t", "sample": 10**30},
        {"table": "t", "keys": [["a", -(2**63) - 1]]},
        {"table": "t", "nobody": {"knows": [{"this": 2**63}]}},
    ],
)
def test_a_number_beyond_64_bits_fails_the_run_at_any_depth(
    monkeypatch: pytest.MonkeyPatch, conf: dict[str, Any]
) -> None:
    state, note, told = starts(monkeypatch, conf)
    assert state == "failed"
    assert note is not None
    assert "a whole number beyond 64 bits" in note
    assert "write it as a text" in note
    ((table, run, reason, sentence),) = told
    assert (table, run["run_id"], reason) == ("t", "manual__1", "failed")
    assert sentence in note
    assert "conf" not in run, "the number is not handed on"


@pytest.mark.parametrize("conf", [None, {}, {"table": "t", "rows": [1, "x" * 9, 1.5, 2**63 - 1]}])
def test_every_other_configuration_passes(monkeypatch: pytest.MonkeyPatch, conf: object) -> None:
    assert starts(monkeypatch, conf) == (None, None, [])


def test_dags_of_others_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sales", "merge__others"):
        assert starts(monkeypatch, {"x": 10**30}, name) == (None, None, [])
