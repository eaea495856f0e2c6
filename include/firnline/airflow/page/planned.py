"""Reads from Airflow's database what the newest run of ``erase_person`` has found in the way.

A run reads the keys of requests, which the page does not: only it knows of legal holds over them,
and of keys that do not fit a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from firnline.operations.dag_ids import ERASE_PERSON
from firnline.operations.erasure.look import State, Step, TableLook

OF_KEYS: frozenset[State] = frozenset({"held", "refused", "no key"})
"""States that only who reads the keys can tell."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Findings of a run, by table."""

    run_id: str
    now_ms: int
    """Time of its look, unix ms."""
    tables: Mapping[str, TableLook]
    """By name; the first 50 of them, each with its first 50 requests."""

    def over(self, look: TableLook) -> TableLook:
        """Return a look without keys, with what the run knows from the keys."""
        found = self.tables.get(look.table)
        if found is None or found.columns != look.columns:
            return look
        steps = tuple(_with_keys(each, found.step(each.request)) for each in look.steps)
        return msgspec.structs.replace(look, steps=steps)


def _with_keys(step: Step, found: Step | None) -> Step:
    if found is None or step.state != "to do" or found.state not in OF_KEYS:
        return step
    return found


def planned(session: Session) -> Planned | None:
    """Return what the newest run has found; None if no run did, or its XCom is kept elsewhere.

    One query of one row.
    """
    query = (
        select(XComModel.run_id, XComModel.value)
        .where(
            XComModel.dag_id == ERASE_PERSON,
            XComModel.task_id == "plan",
            XComModel.key == "return_value",
        )
        .order_by(XComModel.timestamp.desc())
        .limit(1)
    )
    for row in session.execute(query):
        return _planned(row.run_id, XComModel.deserialize_value(row))
    return None


class _Figures(msgspec.Struct):
    """The figures of a plan that are used here."""

    now_ms: int
    tables: tuple[TableLook, ...]


def _planned(run_id: str, value: Any) -> Planned | None:  # noqa: ANN401 - an XCom
    try:
        # Of an XCom backend of somebody's own the database has a reference at most.
        figures = msgspec.convert(value, _Figures)
    except msgspec.ValidationError:
        return None
    return Planned(run_id, figures.now_ms, {each.table: each for each in figures.tables})
