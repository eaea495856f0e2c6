"""The ids of DAGs: built and parsed here alone. Plain data, usable without Airflow.

A DAG is for one table, ``merge__flights``, where it has a schedule, a data interval or a pause
switch of its own. The others are for all tables, ``restore``: each run names its table in a param.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firnline.operations.registry import OPERATIONS

if TYPE_CHECKING:
    # Airflow loads this module into every task's process, which needs no settings.
    from firnline.settings.sections import Operation as DagName

TABLE = "table"
"""Param that names the table of a run, of DAGs for all tables."""

FLEET = "fleet__merge"
"""The DAG that starts the merges of all tables."""

_OPERATIONS = {str(each.dag): each for each in OPERATIONS}


@dataclass(frozen=True, slots=True)
class DagId:
    """A parsed id."""

    operation: DagName
    """``Operation.dag``."""
    table: str | None
    """None for a DAG for all tables."""

    def table_of(self, conf: Mapping[str, Any] | None) -> str | None:
        """Return the table of a run with this configuration; None if it names none."""
        if self.table is not None:
            return self.table
        named = (conf or {}).get(TABLE)
        return named if isinstance(named, str) and named else None


def dag_id(operation: str, table: str | None = None) -> str:
    """Return ``merge__flights``, or ``restore`` for the DAG for all tables."""
    return operation if table is None else f"{operation}__{table}"


def is_ours(text: str) -> bool:
    """Return True for the id of any DAG of this package."""
    return text == FLEET or parse_dag_id(text) is not None


def parse_dag_id(text: str) -> DagId | None:
    """Return the operation and the table of a DAG of an operation; None for any other DAG."""
    operation, separator, table = text.partition("__")
    about = _OPERATIONS.get(operation)
    if about is None or (separator and not table) or not (separator or about.by_hand):
        return None
    return DagId(about.dag, table if separator else None)
