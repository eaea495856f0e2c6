"""Whose DAG it is, as Airflow's database tells by the tags."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from firnline.airflow.ours import is_ours
from firnline.operations.dag_ids import FLEET


@pytest.mark.parametrize(
    ("dag_id", "ours"),
    [
        ("merge__t", True),
        (FLEET, True),
        ("verify__orders", False),
        ("restore__unknown", False),
        # A tag alone does not make a DAG one of those that the package writes.
        ("nightly", False),
    ],
)
def test_a_dag_is_ours_by_its_tag_not_by_its_name_alone(
    monkeypatch: pytest.MonkeyPatch, dag_id: str, ours: bool
) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    tags = [("merge__t", "merge"), ("merge__t", "firnline"), (FLEET, "firnline")]
    tags += [("verify__orders", "orders"), ("nightly", "firnline")]
    with engine.begin() as connection:
        connection.exec_driver_sql("create table dag_tag (name text, dag_id text)")
        for dag, name in tags:
            connection.exec_driver_sql("insert into dag_tag values (?, ?)", (name, dag))
    monkeypatch.setattr("airflow.settings.engine", engine)
    assert is_ours(dag_id) is ours
