"""Tables, schedules and assets for DAG files.

Imported at every parse: nothing here may send a request or import anything heavy.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, get_parsing_context

from firnline.settings.load import TableSettings, load_settings
from firnline.settings.sections import Operation

_RESERVED = ("self", "context")
"""Names that Airflow does not allow for assets."""


def dag_id(operation: str, table: str) -> str:
    """Return ``merge__flights``; ``firnline.operations.pools.pool_of_dag`` parses it."""
    return f"{operation}__{table}"


def tables_of(operation: Operation) -> Iterator[TableSettings]:
    """Yield the tables to make DAGs of: all with the operation, or the one whose task starts.

    The setting ``operations`` names those of a table; ``ttl`` also needs its own section.

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
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
    """Return the asset of the table; tasks that write the table name it as an outlet."""
    name = f"{table.name}.table" if table.name in _RESERVED else table.name
    return Asset(name=name, uri=table.asset_uri, group="firnline")


def schedule_of(cron: str | None, asset: Asset) -> AssetOrTimeSchedule | list[Asset]:
    """Return a schedule by cron (UTC) and asset events; without ``cron`` by asset events only."""
    clock = clock_of(cron)
    return [asset] if clock is None else AssetOrTimeSchedule(timetable=clock, assets=[asset])


def clock_of(cron: str | None) -> CronTriggerTimetable | None:
    """Return a schedule by cron (UTC); None without ``cron``: manual runs only."""
    return None if cron is None else CronTriggerTimetable(cron, timezone="UTC")
