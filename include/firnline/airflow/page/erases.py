"""Reads from Airflow's database what runs of clean-ups reported of certificates of erases."""

from __future__ import annotations

from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from firnline.airflow.certificates import CERTIFICATES
from firnline.operations.dag_ids import dag_id, parse_dag_id
from firnline.operations.registry import CLEANUP

_MOST = 1_000
"""Newest runs that have tried certificates, of all tables, that are looked through."""


def tries_of(table: str, session: Session) -> dict[str, Any]:
    """Return the newest try at each certificate of a table: id -> what came of it, and its run.

    One query, whose rows are runs that had a certificate to try.
    """
    found = select(XComModel.dag_id, XComModel.run_id, XComModel.value, DagRun.conf)
    query = (
        found.join(DagRun, DagRun.id == XComModel.dag_run_id)
        .where(
            XComModel.dag_id.in_([dag_id(CLEANUP.dag), dag_id(CLEANUP.dag, table)]),
            XComModel.task_id == CERTIFICATES,
            XComModel.key == "return_value",
        )
        .order_by(XComModel.timestamp.desc())
        .limit(_MOST)
    )
    tries: dict[str, Any] = {}
    for row in session.execute(query):
        dag = parse_dag_id(row.dag_id)
        if dag is None or dag.table_of(row.conf) != table:
            continue
        for each in _tried(XComModel.deserialize_value(row)):
            tries.setdefault(each["id"], {**each, "dag_id": row.dag_id, "run_id": row.run_id})
    return tries


def _tried(value: object) -> list[dict[str, Any]]:
    # Of an XCom backend of somebody's own the database has a reference at most.
    found = value.get(CERTIFICATES) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
