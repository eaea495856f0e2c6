"""What a DAG file asks first: for which tables, when they run, and which asset they stand for.

Imported at every parse: nothing here may send a request or import anything heavy.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, get_parsing_context

from firnline.settings.load import TableSettings, load_settings
from firnline.settings.sections import Operation

_RESERVED = ("self", "context")
"""Names that Airflow gives no asset."""


def dag_id(operation: str, table: str) -> str:
    """``merge__flights``; ``firnline.operations.pools.pool_of_dag`` reads it back."""
    return f"{operation}__{table}"


def tables_of(operation: Operation) -> Iterator[TableSettings]:
    """The tables to make DAGs of: all that have the operation, or the one whose task starts.

    ``operations`` of a table names those that it has; ``ttl`` also needs its section.

    Raises:
        SettingsError: the settings file is wrong; Airflow shows it as an import error.
    """
    tables = load_settings().tables
    wanted = get_parsing_context().dag_id
    if wanted is None:
        yield from (table for table in tables.values() if _has(table, operation))
        return
    # A task needs its own DAG only; with 1,000 tables making the others takes seconds.
    table = tables.get(wanted.removeprefix(dag_id(operation, "")))
    if table is not None and wanted == dag_id(operation, table.name) and _has(table, operation):
        yield table


def _has(table: TableSettings, operation: Operation) -> bool:
    return operation in table.operations and (operation != "ttl" or table.ttl is not None)


def asset_of(table: TableSettings) -> Asset:
    """The asset that stands for the table: whoever writes it names it as an outlet."""
    name = f"{table.name}.table" if table.name in _RESERVED else table.name
    return Asset(name=name, uri=table.asset_uri, group="firnline")


def schedule_of(cron: str | None, asset: Asset) -> AssetOrTimeSchedule | list[Asset]:
    """By the clock (UTC), and whenever something is written; without ``cron`` only the latter."""
    clock = clock_of(cron)
    return [asset] if clock is None else AssetOrTimeSchedule(timetable=clock, assets=[asset])


def clock_of(cron: str | None) -> CronTriggerTimetable | None:
    """By the clock (UTC); without ``cron`` by hand only."""
    return None if cron is None else CronTriggerTimetable(cron, timezone="UTC")
