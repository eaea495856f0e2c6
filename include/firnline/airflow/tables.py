"""What a DAG file asks first: for which tables, when they run, and which asset they stand for.

Imported at every parse: nothing here may send a request or import anything heavy.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, get_parsing_context

from firnline.settings import TableSettings, load_settings

_RESERVED = ("self", "context")
"""Names that Airflow gives no asset."""


def dag_id(operation: str, table: str) -> str:
    """``merge__flights``; ``firnline.pools.pool_of_dag`` reads it back."""
    return f"{operation}__{table}"


def tables_of(operation: str) -> Iterator[TableSettings]:
    """The tables to make DAGs of: all, or the one whose task is about to start.

    Raises:
        SettingsError: the settings file is wrong; Airflow shows it as an import error.
    """
    tables = load_settings().tables
    wanted = get_parsing_context().dag_id
    if wanted is None:
        yield from tables.values()
        return
    # A task needs its own DAG only; with 1,000 tables making the others takes seconds.
    table = tables.get(wanted.removeprefix(dag_id(operation, "")))
    if table is not None and wanted == dag_id(operation, table.name):
        yield table


def asset_of(table: TableSettings) -> Asset:
    """The asset that stands for the table: whoever writes it names it as an outlet."""
    name = f"{table.name}.table" if table.name in _RESERVED else table.name
    return Asset(name=name, uri=table.asset_uri, group="firnline")


def schedule_of(cron: str | None, asset: Asset) -> AssetOrTimeSchedule | list[Asset]:
    """By the clock (UTC), and whenever something is written; without ``cron`` only the latter."""
    if cron is None:
        return [asset]
    return AssetOrTimeSchedule(timetable=CronTriggerTimetable(cron, timezone="UTC"), assets=[asset])
