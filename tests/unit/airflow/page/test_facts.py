"""What Airflow's database says of tables; with a whole Airflow in tests/dags/test_page_real.py."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow.models
import pytest
from airflow.models.base import Base
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from sqlalchemy import create_engine, insert, text
from sqlalchemy.orm import Session

from firnline.airflow.page import facts
from firnline.airflow.page.facts import Holder, facts_of


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def session(*tasks: tuple[Any, ...]) -> Any:
    """A database with these tasks (pool, DAG, run, start) that hold slots, and nothing else."""
    answers = iter([tasks, (), ()])
    return SimpleNamespace(execute=lambda _: next(answers))


def test_all_merges_that_hold_a_slot_are_named_the_longest_first() -> None:
    found = facts_of(
        ["t", "u"],
        session(
            ("t.merge", "merge__t", "third", None),
            ("t.merge", "merge__t", "second", moment(2_000)),
            ("other", "somebody_elses", "run", moment(1)),
            ("t.merge", "merge__t", "first", moment(1_000)),
            ("t.cleanup", "verify__t", "check", moment(5_000)),
        ),
    )
    assert found["t"].holders == {
        "merge": [
            Holder("merge__t", "first", 1_000),
            Holder("merge__t", "second", 2_000),
            Holder("merge__t", "third", None),
        ],
        "cleanup": [Holder("verify__t", "check", 5_000)],
    }
    assert found["t"].to_json()["holders"]["merge"][0]["run_id"] == "first"
    assert "u" not in found


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Session]:
    """Airflow's tables, empty."""
    airflow.models.import_all_models()  # type: ignore[no-untyped-call] # Airflow's
    engine = create_engine(f"sqlite:///{tmp_path}/airflow.db")
    wanted = (
        *("dag", "dag_bundle", "dag_run", "dag_tag"),
        *("hitl_detail", "log_template", "task_instance"),
    )
    Base.metadata.create_all(engine, tables=[Base.metadata.tables[name] for name in wanted])
    with Session(engine) as opened:
        yield opened


def ran(database: Session, dag: str, run: str, table: str | None = None) -> None:
    """Add a run, which is the newest then."""
    conf = None if table is None else {"table": table}
    known = {"dag_id": dag, "run_id": run, "conf": conf, "state": "success", "run_type": "manual"}
    more = {"run_after": moment(0), "updated_at": moment(0), "clear_number": 0}
    database.execute(insert(DagRun).values(**known, **more, end_date=moment(7)))


def own(database: Session, dag: str, tag: str = "firnline") -> None:
    """Tell Airflow of a DAG that has a tag."""
    wanted = ("max_active_tasks", "max_active_runs", "max_consecutive_failed_dag_runs")
    columns = {"dag_id": dag, "bundle_name": "b", **dict.fromkeys(wanted, 1)}
    columns["has_task_concurrency_limits"] = False
    database.execute(text("insert or ignore into dag_bundle (name) values ('b')"))
    database.execute(insert(DagModel).values(**columns))
    database.execute(insert(DagTag).values(dag_id=dag, name=tag))


def last(database: Session, table: str) -> dict[str, str]:
    found = facts_of([table], database).get(table)
    return {} if found is None else {name: run.run_id for name, run in found.runs.items()}


@pytest.mark.long
def test_the_newest_run_of_each_operation_on_a_table_is_found(database: Session) -> None:
    for number in range(3):
        for table in ("t", "u"):
            ran(database, "merge", f"{table}{number}", table)
    ran(database, "verify", "check", "u")
    ran(database, "merge", "of nobody")
    assert last(database, "t") == {"merge": "t2"}
    assert last(database, "u") == {"merge": "u2", "verify": "check"}


def test_of_a_table_s_own_dag_and_that_for_all_the_newer_run_counts(database: Session) -> None:
    own(database, "merge__t")
    ran(database, "merge", "older", "t")
    ran(database, "merge__t", "newer")
    assert last(database, "t") == {"merge": "newer"}
    ran(database, "merge", "newest", "t")
    assert last(database, "t") == {"merge": "newest"}


@pytest.mark.long
def test_somebody_else_s_dag_with_the_name_of_a_table_s_own_is_no_run_of_it(
    database: Session,
) -> None:
    own(database, "verify__t", "orders")
    ran(database, "verify__t", "theirs")
    ran(database, "merge", "ours", "t")
    assert last(database, "t") == {"merge": "ours"}


def test_the_runs_that_are_looked_through_are_bounded(
    database: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(database, "ttl", "of another operation", "t")
    ran(database, "merge", "old", "t")
    for number in range(2):
        ran(database, "merge", f"u{number}", "u")
    monkeypatch.setattr(facts, "_MOST_RUNS", 2)
    assert last(database, "t") == {"ttl": "of another operation"}
    monkeypatch.setattr(facts, "_MOST_RUNS", 3)
    assert last(database, "t")["merge"] == "old"
