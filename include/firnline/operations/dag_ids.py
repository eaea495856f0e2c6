"""The ids of DAGs: built and parsed here alone. Plain data, usable without Airflow.

Each operation has a DAG for all tables, ``restore``: each run names its table in a param. A DAG
for one table, ``merge__flights``, is there where the table has a schedule for the operation, or
asks for a pause switch and backfills of its own (``own_dags``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firnline.operations.registry import DAGS

if TYPE_CHECKING:
    # Airflow loads this module into every task's process, which needs no settings.
    from firnline.settings.model import TableSettings
    from firnline.settings.sections import Operation as DagName

TABLE = "table"
"""Param that names the table of a run, of DAGs for all tables."""

TAG = "firnline"
"""Tag of all our DAGs. Their ids alone do not tell them from DAGs of others."""

FLEET = "fleet__merge"
"""The DAG that starts the merges of all tables."""

ERASE_PERSON = "erase_person"
"""The DAG that carries out requests of erasure."""

_LONGEST = 120
_BETWEEN = "__"
_OPERATIONS = {str(each.dag): each for each in DAGS}


@dataclass(frozen=True, slots=True)
class DagId:
    """A parsed id."""

    operation: DagName
    """``AboutDag.dag``."""
    table: str | None
    """None for a DAG for all tables."""

    def table_of(self, conf: Mapping[str, Any] | None) -> str | None:
        """Return the table of a run with this configuration; None if it names none."""
        if self.table is not None:
            return self.table
        named = (conf or {}).get(TABLE)
        return named if isinstance(named, str) and named else None


@dataclass(frozen=True, slots=True)
class RunOf:
    """The DAG in which an operation runs on a table, and the configuration of such a run."""

    dag_id: str
    conf: Mapping[str, str]
    """Configuration that names the table; empty in a DAG of its own."""

    def run_id(self, prefix: str) -> str:
        """Return an id for a run: of a DAG for all tables it has the table in it."""
        return _BETWEEN.join([prefix, *map(_shortened, self.conf.values())])


def _shortened(table: str) -> str:
    """Return a name that leaves room in an id of a run, of which Airflow takes 250 characters."""
    if len(table) <= _LONGEST:
        return table
    return f"{table[: _LONGEST - 9]}-{zlib.crc32(table.encode()):08x}"


def table_in_run_id(run_id: str, tables: Iterable[str]) -> str:
    """Return the table with which an id of ``RunOf.run_id`` ends; empty if it is none of them.

    Args:
        run_id: of a run of a DAG for all tables.
        tables: names that there are.
    """
    found = [name for name in tables if run_id.endswith(f"{_BETWEEN}{_shortened(name)}")]
    return max(found, key=len, default="")


def dag_id(operation: str, table: str | None = None) -> str:
    """Return ``merge__flights``, or ``restore`` for the DAG for all tables."""
    return operation if table is None else f"{operation}{_BETWEEN}{table}"


def run_of(operation: DagName, table: TableSettings) -> RunOf:
    """Return how a run of an operation on a table is started: in its own DAG if it has one."""
    if operation in table.own_dags:
        return RunOf(dag_id(operation, table.name), {})
    return RunOf(dag_id(operation), {TABLE: table.name})


def is_like_ours(text: str) -> bool:
    """Return True for an id that a DAG of this package may have, and one of others as well."""
    return text in (FLEET, ERASE_PERSON) or parse_dag_id(text) is not None


def parse_dag_id(text: str) -> DagId | None:
    """Return the operation and the table of a DAG of an operation; None for any other id."""
    operation, separator, table = text.partition(_BETWEEN)
    about = _OPERATIONS.get(operation)
    if about is None or (separator and not table):
        return None
    return DagId(about.dag, table if separator else None)
