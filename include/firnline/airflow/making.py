"""Make the DAGs of the settings file: those for all tables, and those of single tables.

The graph of each operation is a module in ``firnline.airflow.graphs``, which is imported only where
it is needed: a task that starts makes its own DAG.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from airflow.sdk import get_parsing_context

from firnline.airflow.broken import refusing_dag
from firnline.airflow.fleet import fleet_to_plan
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import DagTable, any_table, own_table
from firnline.operations.dag_ids import dag_id
from firnline.settings.sections import ALL_OPERATIONS, Operation

_SHARE = re.compile(r".*_(\d+)_of_(\d+)")


class _Graph(Protocol):
    def make(self, table: DagTable, jobs: Path) -> None: ...


_MODULES: Mapping[Operation, str] = {"import": "import_files"}
"""Operation -> its module, where it is a keyword of Python."""


def graph_of(operation: Operation) -> _Graph:
    """Return the module that makes the DAGs of an operation."""
    name = _MODULES.get(operation, operation)
    return cast("_Graph", import_module(f"firnline.airflow.graphs.{name}"))


def make_for_all_tables(jobs: Path) -> None:
    """Make the planner's DAG and one of each operation that any table has.

    Args:
        jobs: the folder ``spark_jobs``.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    wanted = get_parsing_context().dag_id
    for operation in ALL_OPERATIONS:
        if wanted in (None, dag_id(operation)) and (table := any_table(operation)) is not None:
            graph_of(operation).make(table, jobs)
    if (settings := fleet_to_plan()) is not None:
        from firnline.airflow.graphs import fleet_merge

        fleet_merge.make(settings)


def make_of_single_tables(jobs: Path, file: Path) -> None:
    """Make the DAGs of tables that have their own (``own_dags``), or that of the task that starts.

    Of tables whose settings have mistakes it makes DAGs that say so (``firnline.airflow.broken``).

    Args:
        jobs: the folder ``spark_jobs``.
        file: the DAG file; ``…_2_of_5.py`` makes a fifth of the tables.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    settings, wanted = current_settings(), get_parsing_context().dag_id
    for broken in filter(lambda each: is_in(each.name, file), settings.broken.values()):
        for operation in broken.own_dags:
            if wanted in (None, dag_id(operation, broken.name)):
                refusing_dag(broken, operation)
    for known in filter(lambda each: is_in(each.name, file), settings.tables.values()):
        for operation in known.own_dags:
            # With 1,000 tables making the others takes seconds.
            if wanted in (None, dag_id(operation, known.name)):
                graph_of(operation).make(own_table(known, operation, settings.fleet), jobs)


def is_in(table: str, file: Path) -> bool:
    """Return True if a DAG file makes the DAGs of a table: each table is in one of its shares."""
    share = _SHARE.fullmatch(file.stem)
    if share is None:
        return True
    number, count = map(int, share.groups())
    return zlib.crc32(table.encode()) % max(count, 1) == number - 1
