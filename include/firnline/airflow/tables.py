"""Tables, schedules and assets for DAG files.

Imported at every parse: nothing here may send a request or import anything heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import (
    Asset,
    AssetAlias,
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    Param,
    get_parsing_context,
)

from firnline.airflow.broken import refusing_dag
from firnline.airflow.params import asked_param
from firnline.airflow.settings import current_settings
from firnline.errors import UsageError
from firnline.operations.dag_ids import TABLE, dag_id
from firnline.operations.pools import NO_TABLE, pool_of_operation, slots_of_operation
from firnline.settings.cron import spread
from firnline.settings.load import TableSettings
from firnline.settings.sections import Operation, PlannedSection

if TYPE_CHECKING:
    from airflow.sdk import Context

_RESERVED = ("self", "context")
"""Names that Airflow does not allow for assets."""
MIRROR = "mirror"
"""Id of the task that publishes the mirrors of a table after a commit."""
_ANY_TABLE = AssetAlias(name="firnline", group="firnline")


class DagTable(Protocol):
    """The table that a DAG's tasks work on, as far as it is known before a run."""

    def dag_id(self, operation: str) -> str:
        """Return the id of the operation's DAG."""
        ...

    @property
    def name(self) -> str:
        """Return the table for titles: ``table flights``."""
        ...

    @property
    def known(self) -> TableSettings | None:
        """Return the settings of the table; None if each run names another one."""
        ...

    @property
    def params(self) -> Mapping[str, Param]:
        """Return the params that name the table."""
        ...

    @property
    def commit_ttl(self) -> int:
        """Return the longest time after which a commit is refused, milliseconds."""
        ...

    @property
    def outlets(self) -> tuple[Asset | AssetAlias, ...]:
        """Return the outlets of a task that changes the table."""
        ...

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return the inlets of its tasks."""
        ...

    @property
    def mirrored(self) -> bool:
        """Return True if the table has a mirror, or one of those that a run may name."""
        ...

    def lock(self, operation: str) -> dict[str, Any]:
        """Return ``pool`` and ``pool_slots`` of the task that holds the table's lock."""
        ...

    def of_run(self, context: Context) -> TableSettings:
        """Return the table of this run. Raises UsageError if there is no such table."""
        ...

    def report(self, context: Context, figures: dict[str, Any]) -> None:
        """Hand figures on in the event on the table's asset; once, by a task with outlets."""
        ...


@dataclass(frozen=True, slots=True)
class OneTable:
    """The table of a DAG of its own."""

    known: TableSettings
    planner: bool = True
    """The planner of the fleet has a schedule; without one it starts nothing."""

    def dag_id(self, operation: str) -> str:
        """Return ``merge__flights``."""
        return dag_id(operation, self.known.name)

    def clock(
        self, operation: Operation, section: PlannedSection | None, preset: str
    ) -> CronTriggerTimetable | None:
        """Return the clock of an operation's DAG; None if it has none, or the planner starts it.

        Args:
            operation: of the DAG.
            section: its settings; None without any.
            preset: the schedule where the planner should start it and has none itself.
        """
        if section is None:
            return None
        cron = preset if section.by_fleet and not self.planner else section.cron
        return clock_of(cron, self.dag_id(operation))

    @property
    def name(self) -> str:
        """Return ``table flights``."""
        return f"table {self.known.name}"

    @property
    def params(self) -> Mapping[str, Param]:
        """Return no params."""
        return {}

    @property
    def commit_ttl(self) -> int:
        """Return ``commit_ttl`` of the table."""
        return self.known.commit_ttl

    @property
    def outlets(self) -> tuple[Asset, ...]:
        """Return the asset of the table."""
        return (asset_of(self.known),)

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return the asset of the table."""
        return (asset_of(self.known),)

    @property
    def mirrored(self) -> bool:
        """Return True if its settings name a mirror."""
        return bool(self.known.mirrors)

    def lock(self, operation: str) -> dict[str, Any]:
        """Return the table's pool, and all of its slots or that of one merge."""
        return {
            "pool": pool_of_operation(operation, self.known.name),
            "pool_slots": slots_of_operation(operation, self.known),
        }

    def of_run(self, context: Context) -> TableSettings:  # noqa: ARG002 - as the protocol
        """Return the table."""
        return self.known

    def report(self, context: Context, figures: dict[str, Any]) -> None:
        """Set the extra of the asset's event."""
        context["outlet_events"][asset_of(self.known)].extra = figures


@dataclass(frozen=True, slots=True)
class TableOfRun:
    """The table that a run names in its param ``table``, of those that have the operation.

    ``firnline.airflow.policy`` gives the task that holds the lock the pool of that table.
    """

    operation: Operation
    names: tuple[str, ...]
    commit_ttl: int
    mirrored: bool = False

    @property
    def known(self) -> None:
        """Return None."""
        return None

    def dag_id(self, operation: str) -> str:
        """Return the operation."""
        return dag_id(operation)

    @property
    def name(self) -> str:
        """Return ``a table``."""
        return "a table"

    @property
    def params(self) -> Mapping[str, Param]:
        """Return ``table``, a choice; Airflow refuses a run that names none."""
        return {
            TABLE: asked_param(
                None,
                "Table",
                "The table that the run works on.",
                type="string",
                enum=list(self.names),
            )
        }

    @property
    def outlets(self) -> tuple[AssetAlias, ...]:
        """Return an alias, which stands for the asset of the run's table."""
        return (_ANY_TABLE,)

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return nothing: an inlet is fixed when the DAG is made."""
        return ()

    def lock(self, operation: str) -> dict[str, Any]:  # noqa: ARG002 - as the protocol
        """Return the pool without slots; the policy replaces it and the number of its slots."""
        return {"pool": NO_TABLE}

    def of_run(self, context: Context) -> TableSettings:
        """Return the table that the configuration of the run names.

        Not the param: the lock is chosen by the configuration. Raises SettingsError for a table
        whose settings have mistakes.
        """
        name, settings = (context["dag_run"].conf or {}).get(TABLE), current_settings()
        settings.refuse_broken(name)
        table = settings.tables.get(name) if isinstance(name, str) else None
        if table is None or not _has(table, self.operation):
            raise UsageError(
                f"the settings have no table {name!r} with the operation {self.operation}",
                next_step=f"start a run with one of the tables {', '.join(self.names)}",
            )
        return table

    def report(self, context: Context, figures: dict[str, Any]) -> None:
        """Add an event on the table's asset."""
        context["outlet_events"][_ANY_TABLE].add(asset_of(self.of_run(context)), extra=figures)


def tables_of(operation: Operation) -> Iterator[OneTable]:
    """Yield the tables to make DAGs of: all with the operation, or the one whose task starts.

    The setting ``operations`` names those of a table; ``ttl`` also needs its own section. Of tables
    whose settings have mistakes it makes the DAGs itself (``firnline.airflow.broken``).

    Raises:
        SettingsError: the settings file is not valid; Airflow shows it as an import error.
    """
    settings = current_settings()
    tables, wanted = settings.tables, get_parsing_context().dag_id
    planner = settings.fleet.schedule is not None
    for broken in settings.broken.values():
        if operation in broken.operations and wanted in (None, dag_id(operation, broken.name)):
            refusing_dag(broken, operation)
    if wanted is None:
        known = (table for table in tables.values() if _has(table, operation))
        yield from (OneTable(table, planner) for table in known)
        return
    # A task needs its own DAG only; with 1,000 tables making the others takes seconds.
    table = tables.get(wanted.removeprefix(dag_id(operation, "")))
    if table is not None and wanted == dag_id(operation, table.name) and _has(table, operation):
        yield OneTable(table, planner)


def tables_by_hand(
    operation: Operation, schedule: Callable[[TableSettings], str | None] = lambda _: None
) -> Iterator[TableOfRun | OneTable]:
    """Yield what the DAG for all tables with the operation works on; nothing without any.

    Args:
        operation: of the DAG.
        schedule: returns the schedule of a table; one that has any has a DAG of its own besides.

    Raises:
        SettingsError: as ``tables_of``.
    """
    wanted = get_parsing_context().dag_id
    if wanted is not None and wanted.partition("__")[0] != operation:
        return
    tables = [table for table in current_settings().tables.values() if _has(table, operation)]
    if tables and wanted in (None, dag_id(operation)):
        longest = max(table.commit_ttl for table in tables)
        mirrored = any(table.mirrors for table in tables)
        yield TableOfRun(operation, tuple(table.name for table in tables), longest, mirrored)
    for table in tables:
        if schedule(table) and wanted in (None, dag_id(operation, table.name)):
            yield OneTable(table)


def _has(table: TableSettings, operation: Operation) -> bool:
    return operation in table.operations and (operation != "ttl" or table.ttl is not None)


def asset_of(table: TableSettings) -> Asset:
    """Return the asset of the table; tasks that write the table name it as an outlet."""
    name = f"{table.name}.table" if table.name in _RESERVED else table.name
    return Asset(name=name, uri=table.asset_uri, group="firnline")


def schedule_of(cron: str | None, dag_id: str, asset: Asset) -> AssetOrTimeSchedule | list[Asset]:
    """Return a schedule by cron (UTC) and asset events; without ``cron`` by asset events only."""
    clock = clock_of(cron, dag_id)
    return [asset] if clock is None else AssetOrTimeSchedule(timetable=clock, assets=[asset])


def clock_of(cron: str | None, dag_id: str | None = None) -> CronTriggerTimetable | None:
    """Return a schedule by cron (UTC); None without ``cron``: manual runs only.

    Args:
        cron: a preset or five fields.
        dag_id: of one table's DAG: a preset is spread by it (``settings.cron.spread``).
    """
    if cron is None:
        return None
    return CronTriggerTimetable(cron if dag_id is None else spread(cron, dag_id), timezone="UTC")
