"""Make the DAGs of the settings file: those for all tables, and those of single tables.

The graph of each operation is a module in ``firnline.airflow.graphs``, which is imported only where
it is needed: a task that starts makes its own DAG.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from airflow.sdk import get_parsing_context

from firnline.airflow.broken import refusing_dag
from firnline.airflow.erasure import erasure_to_run
from firnline.airflow.fleet import fleet_to_plan
from firnline.airflow.overrides import overrides
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import DagTable, any_table, own_table
from firnline.airflow.told import NOTHING, Told
from firnline.airflow.versions import ids_in_file
from firnline.errors import UsageError, quoted
from firnline.extras import explaining
from firnline.operations.dag_ids import ERASE_PERSON, FLEET, dag_id
from firnline.settings.dags import has_dag
from firnline.settings.load import TableSettings
from firnline.settings.sections import ALL_OPERATIONS, Operation

JOBS = Path(__file__).resolve().parents[1] / "spark" / "jobs"
"""The Spark jobs of this package."""
_SHARE = re.compile(r".*_(\d+)_of_(\d+)")


class _Graph(Protocol):
    def make(self, table: DagTable, jobs: Path) -> None: ...


_MODULES: Mapping[Operation, str] = {"import": "import_files"}
"""Operation -> its module, where it is a keyword of Python."""


def graph_of(operation: Operation) -> _Graph:
    """Return the module that makes the DAGs of an operation.

    Raises EnvironmentFaultError: it needs a provider of Airflow that is not installed.
    """
    name = _MODULES.get(operation, operation)
    with explaining():
        return cast("_Graph", import_module(f"firnline.airflow.graphs.{name}"))


def dag_factory(
    *,
    shared: bool = True,
    own: bool = True,
    file: Path | str | None = None,
    jobs: Path | str | None = None,
    **said: Any,
) -> None:
    """Make firnline's DAGs: those for all tables with the planner, and the tables' own.

        from firnline.airflow import dag_factory

        dag_factory(
            queue="maintenance",
            operations={"merge": {"priority_weight": 10}},
            tables={"events": {"retries": 5, "operations": {"verify": {"queue": "large"}}}},
        )

    What is said of all DAGs, by operation, by table, and by operation of a table, goes in this
    order before the section ``airflow`` of the settings, each level before the one above.

    Args:
        shared: make the DAGs for all tables.
        own: make the DAGs of the tables that have their own.
        file: ``__file__`` of the DAG file; ``…_2_of_5.py`` makes a fifth of the tables.
        jobs: the folder of the Spark jobs; None: those of this package.
        said: ``default_args``, ``retries``, ``retry_delay``, ``max_retry_delay``, ``queue``,
            ``pool``, ``executor``, ``executor_config``, ``priority_weight``, ``weight_rule``,
            ``owner``, ``tags``, ``start_date``, ``max_active_tasks``, ``on_failure_callback``,
            ``on_success_callback``, ``on_retry_callback``; ``operations`` and ``tables``, mappings
            of the same; and ``schedule`` of an operation of a table for which the settings have
            none, which makes a DAG of that table.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
        UsageError: a name that is none, a value that its key does not take, a schedule that the
            settings have too, or a DAG that this file has made before.
    """
    for name, value in (("shared", shared), ("own", own)):
        if not isinstance(value, bool):
            raise UsageError(
                f"{name} of dag_factory is {quoted(value)}", next_step="write True or False"
            )
    told, folder = Told.of(said), JOBS if jobs is None else Path(jobs)
    told.refuse_unfit(current_settings())
    if shared:
        make_for_all_tables(folder, told)
    if own:
        make_of_single_tables(folder, None if file is None else Path(file), told)


def make_for_all_tables(jobs: Path, told: Told = NOTHING) -> None:
    """Make the planner's DAG, that of erasures, and one of each operation that any table has.

    Args:
        jobs: the folder ``spark_jobs``.
        told: what the DAG file says of the DAGs.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    wanted = get_parsing_context().dag_id
    for operation in ALL_OPERATIONS:
        if wanted in (None, dag_id(operation)):
            table = any_table(operation, told)
            if table is not None:
                _refuse_twice(dag_id(operation))
                graph_of(operation).make(table, jobs)
    if (settings := fleet_to_plan()) is not None:
        from firnline.airflow.graphs import fleet_merge

        _refuse_twice(FLEET)
        fleet_merge.make(settings, overrides(None, None, told))
    if (erasure := erasure_to_run()) is not None:
        from firnline.airflow.graphs import people

        _refuse_twice(ERASE_PERSON)
        people.make(erasure, overrides(None, None, told))


def make_of_single_tables(jobs: Path, file: Path | None, told: Told = NOTHING) -> None:
    """Make the DAGs of tables that have their own (``own_dags``), or that of the task that starts.

    Of tables whose settings have mistakes it makes DAGs that say so (``firnline.airflow.broken``).

    Args:
        jobs: the folder ``spark_jobs``.
        file: the DAG file; ``…_2_of_5.py`` makes a fifth of the tables. None: all of them.
        told: what the DAG file says of the DAGs.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    settings, wanted = current_settings(), get_parsing_context().dag_id
    for broken in filter(lambda each: is_in(each.name, file), settings.broken.values()):
        for operation in _in_order({*broken.own_dags, *told.scheduled(broken.name)}):
            if wanted in (None, dag_id(operation, broken.name)):
                _refuse_twice(dag_id(operation, broken.name))
                refusing_dag(broken, operation)
    for known in filter(lambda each: is_in(each.name, file), settings.tables.values()):
        for operation in _operations_of(known, told):
            # With 1,000 tables making the others takes seconds.
            if wanted in (None, dag_id(operation, known.name)):
                table = own_table(known, operation, settings.fleet, told)
                _refuse_twice(dag_id(operation, known.name))
                graph_of(operation).make(table, jobs)


def _operations_of(table: TableSettings, told: Told) -> list[Operation]:
    """Return the operations with a DAG of the table's own: as the settings say, and by a schedule.

    Raises UsageError: the DAG file has a schedule for an operation that the table does not have.
    """
    scheduled = told.scheduled(table.name)
    for operation in _in_order(scheduled):
        named = dag_id(operation, table.name)
        if operation == "import" and table.imports is None:
            raise UsageError(
                f"the DAG file gives {named} a schedule, and table {table.name} names no folder to "
                "import from",
                next_step="add a section `import` to the table, or leave the schedule out",
            )
        if not has_dag(table, operation):
            raise UsageError(
                f"the DAG file gives {named} a schedule, and table {table.name} has no {operation} "
                "in the settings",
                next_step="add it to the table, or leave the schedule out",
            )
    return _in_order({*table.own_dags, *scheduled})


def _in_order(operations: Collection[Operation]) -> list[Operation]:
    return [operation for operation in ALL_OPERATIONS if operation in operations]


def _refuse_twice(named: str) -> None:
    """Raise UsageError if this file has made a DAG of an id: Airflow would leave one of them out.

    What other files make is not known: Airflow reads each in a process of its own.
    """
    if named in ids_in_file():
        raise UsageError(
            f"this file makes the DAG {named} twice, and Airflow would leave one of them out",
            next_step="call dag_factory once, or once with own=False and once with shared=False",
        )


def is_in(table: str, file: Path | None) -> bool:
    """Return True if a DAG file makes the DAGs of a table: each table is in one of its shares."""
    if file is None:
        return True
    share = _SHARE.fullmatch(file.stem)
    if share is None:
        return True
    number, count = map(int, share.groups())
    return zlib.crc32(table.encode()) % max(count, 1) == number - 1
