"""Tables, schedules and assets for DAG files.

Imported at every parse: nothing here may send a request or import anything heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import Asset, AssetAlias, Param

from firnline.airflow.overrides import NONE, Overrides, overrides
from firnline.airflow.params import asked_param
from firnline.airflow.runs import operation_of
from firnline.airflow.settings import current_settings
from firnline.airflow.told import NOTHING, Told
from firnline.airflow.versions import AssetOrTimeSchedule, CronTriggerTimetable
from firnline.errors import SettingsError, UsageError, quoted
from firnline.operations.dag_ids import TABLE, dag_id
from firnline.operations.pools import (
    NO_TABLE,
    NO_TABLE_TAKES,
    pool_of_operation,
    slots_of_operation,
)
from firnline.settings.cron import spread
from firnline.settings.dags import SECTIONS, cron_of, has_dag, started_by_planner
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings
from firnline.settings.sections import Operation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.operation import AnyDag


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
    def clock(self) -> CronTriggerTimetable | None:
        """Return the clock of its DAG; None if the planner starts its runs, or people do."""
        ...

    @property
    def overrides(self) -> Overrides:
        """Return what users say of its DAG."""
        ...

    def outlets(self, about: AnyDag) -> tuple[Asset | AssetAlias, ...]:
        """Return the outlets of a task of an operation that changes the table."""
        ...

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return the inlets of its tasks."""
        ...

    @property
    def mirrored(self) -> bool:
        """Return True if the table has a mirror, or one of those that a run may name."""
        ...

    @property
    def deadlines(self) -> tuple[int, ...]:
        """Return the values of ``alerts.merge_deadline``, ms, of all tables of its DAG."""
        ...

    def lock(self, operation: str) -> dict[str, Any]:
        """Return ``pool`` and ``pool_slots`` of the task that holds the table's lock.

        Nothing for an operation that waits for nobody: its task is in Airflow's default pool.
        """
        ...

    def of_run(self, context: Context) -> TableSettings:
        """Return the table of this run. Raises UsageError if there is no such table."""
        ...

    def report(self, context: Context, about: AnyDag, figures: dict[str, Any]) -> None:
        """Hand figures on in the event on an asset of the table; once, by a task with outlets."""
        ...


@dataclass(frozen=True, slots=True)
class OneTable:
    """The table of a DAG of its own."""

    known: TableSettings
    clock: CronTriggerTimetable | None = None
    """Of the operation's DAG; None if the planner starts its runs, or people do."""
    overrides: Overrides = NONE

    def dag_id(self, operation: str) -> str:
        """Return ``merge__flights``."""
        return dag_id(operation, self.known.name)

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

    def outlets(self, about: AnyDag) -> tuple[Asset, ...]:
        """Return the asset on which the operation has its events."""
        return (asset_for(self.known, about),)

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return the assets of the table."""
        return assets_of(self.known)

    @property
    def mirrored(self) -> bool:
        """Return True if its settings name a mirror."""
        return bool(self.known.mirrors)

    @property
    def deadlines(self) -> tuple[int, ...]:
        """Return the one of the table, if it has any."""
        limit = self.known.alerts.merge_deadline
        return () if limit is None else (limit,)

    def lock(self, operation: str) -> dict[str, Any]:
        """Return the table's pool, and all of its slots or that of one merge."""
        pool = pool_of_operation(operation, self.known.name)
        if pool is None:
            return {}
        return {"pool": pool, "pool_slots": slots_of_operation(operation, self.known)}

    def of_run(self, context: Context) -> TableSettings:  # noqa: ARG002 - as the protocol
        """Return the table."""
        return self.known

    def report(self, context: Context, about: AnyDag, figures: dict[str, Any]) -> None:
        """Set the extra of the asset's event."""
        context["outlet_events"][asset_for(self.known, about)].extra = figures


@dataclass(frozen=True, slots=True)
class TableOfRun:
    """The table that a run names in its param ``table``, of those that have the operation.

    ``firnline.airflow.policy`` gives the task that holds the lock the pool of that table.
    """

    operation: Operation
    names: tuple[str, ...]
    commit_ttl: int
    mirrored: bool = False
    deadlines: tuple[int, ...] = ()
    """Values of ``alerts.merge_deadline`` of tables without a DAG of their own, ms."""
    overrides: Overrides = NONE

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
    def clock(self) -> None:
        """Return None."""
        return None

    def outlets(self, about: AnyDag) -> tuple[AssetAlias, ...]:  # noqa: ARG002 - as the protocol
        """Return an alias, which stands for the assets of the run's table."""
        return (_ANY_TABLE,)

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return nothing: an inlet is fixed when the DAG is made."""
        return ()

    def lock(self, operation: str) -> dict[str, Any]:
        """Return the pool where nothing runs; the policy replaces it and the number of slots."""
        waits = pool_of_operation(operation, "") is not None
        return {"pool": NO_TABLE, "pool_slots": NO_TABLE_TAKES} if waits else {}

    def of_run(self, context: Context) -> TableSettings:
        """Return the table that the configuration of the run names.

        Not the param: the lock is chosen by the configuration. Raises SettingsError for a table
        whose settings have mistakes.
        """
        name = (context["dag_run"].conf or {}).get(TABLE)
        step = f"start a run with one of the tables {', '.join(self.names)}"
        return _with_operation(name, self.operation, step)

    def report(self, context: Context, about: AnyDag, figures: dict[str, Any]) -> None:
        """Add an event on an asset of the table."""
        _add_event(context, self.of_run(context), about, figures)


def _with_operation(name: object, operation: Operation, next_step: str) -> TableSettings:
    """Return the table of a name. Raises UsageError, and SettingsError if it has mistakes."""
    settings = current_settings()
    settings.refuse_broken(name)
    table = settings.tables.get(name) if isinstance(name, str) else None
    if table is None or not has_dag(table, operation):
        raise UsageError(
            f"the settings have no table {quoted(name)} with the operation {operation}",
            next_step=next_step,
        )
    return table


def _add_event(
    context: Context, table: TableSettings, about: AnyDag, figures: dict[str, Any]
) -> None:
    """Add an event on an asset of a table, of a task whose outlet stands for any of them."""
    context["outlet_events"][_ANY_TABLE].add(asset_for(table, about), extra=figures)


@dataclass(frozen=True, slots=True)
class TableInTheirDag:
    """The table of a task in a DAG that is not ours, by its name in the settings.

    Its pool is fixed when the DAG is made, so for an operation with a lock the name has to be known
    then; only an operation without one may have a template there. Mistakes in the settings do not
    take such a DAG away: the task fails with them.
    """

    operation: Operation
    given: object
    """What the DAG says: a name, or a template."""
    known: TableSettings | None
    """None for a template, and where the settings do not read."""

    @classmethod
    def named(cls, about: AnyDag, given: object) -> TableInTheirDag:
        """Return the table that a DAG says.

        Raises:
            UsageError: there is no such table, or its pool cannot be known.
        """
        if not isinstance(given, str) or "{" in given:
            if about.lock is not None:
                raise UsageError(
                    f"{about.noun} holds a pool of its table, which Airflow fixes when the DAG is "
                    f"made, and this table is known in a run only: {quoted(str(given))}",
                    next_step="name the table, with a task for each where there are several; or "
                    f"trigger the DAG {about.dag}, whose param `{TABLE}` names it",
                )
            return cls(about.dag, given, None)
        try:
            settings = current_settings()
            settings.refuse_broken(given)
        except SettingsError:
            return cls(about.dag, given, None)
        known = settings.tables.get(given)
        if known is None and not settings.unread:
            raise UsageError(
                f"{about.noun} names table {quoted(given)}, and the settings have no such table",
                next_step=f"add it to {settings.path}, or correct the DAG",
            )
        return cls(about.dag, given, known)

    def dag_id(self, operation: str) -> str:
        """Return the operation: that of the DAG for all tables, which does the same."""
        return dag_id(operation)

    @property
    def name(self) -> str:
        """Return ``table flights``."""
        return f"table {self.given}"

    @property
    def params(self) -> Mapping[str, Param]:
        """Return no params: the task has options."""
        return {}

    @property
    def commit_ttl(self) -> int:
        """Return ``commit_ttl`` of the table, or the usual one."""
        known = self.known
        usual: int = TableSettings.model_fields["commit_ttl"].default
        return usual if known is None else known.commit_ttl

    @property
    def clock(self) -> None:
        """Return None: the DAG has a schedule of its own."""
        return None

    @property
    def overrides(self) -> Overrides:
        """Return nothing: the DAG is not ours."""
        return NONE

    def outlets(self, about: AnyDag) -> tuple[AssetAlias, ...]:  # noqa: ARG002 - as the protocol
        """Return an alias: a task that changed nothing succeeds, and without an event."""
        return (_ANY_TABLE,)

    @property
    def inlets(self) -> tuple[Asset, ...]:
        """Return nothing."""
        return ()

    @property
    def mirrored(self) -> bool:
        """Return False: no task of the DAG publishes mirrors, the one that commits does."""
        return False

    @property
    def deadlines(self) -> tuple[int, ...]:
        """Return nothing."""
        return ()

    def lock(self, operation: str) -> dict[str, Any]:
        """Return ``pool`` and ``pool_slots``; nothing for an operation that waits for nobody."""
        pool = pool_of_operation(operation, str(self.given))
        if pool is None:
            return {}
        slots = 1 if self.known is None else slots_of_operation(operation, self.known)
        return {"pool": pool, "pool_slots": slots}

    def of_run(self, context: Context) -> TableSettings:
        """Return the table, by its name as it was rendered for this run.

        Raises UsageError: there is none with the operation. SettingsError: it has mistakes.
        """
        named = operation_of({**context})
        name = self.given if named is None else named.table
        step = "add it to `tables` or to `operations` of the table, or correct the DAG"
        return _with_operation(name, self.operation, step)

    def report(self, context: Context, about: AnyDag, figures: dict[str, Any]) -> None:
        """Add an event on an asset of the table, unless nothing changed: the task succeeds then."""
        if figures.get("transactions") or figures.get("log_files"):
            _add_event(context, self.of_run(context), about, figures)


def any_table(operation: Operation, told: Told = NOTHING) -> TableOfRun | None:
    """Return what the DAG for all tables works on; None if no table has the operation.

    Args:
        operation: of the DAG.
        told: what the DAG file says of it.

    Raises SettingsError: the settings file is not valid.
    """
    settings = current_settings()
    tables = [table for table in settings.tables.values() if has_dag(table, operation)]
    if not tables:
        return None
    shared = [table for table in tables if operation not in table.own_dags]
    deadlines = {table.alerts.merge_deadline for table in shared if operation == "merge"}
    return TableOfRun(
        operation,
        tuple(table.name for table in tables),
        max(table.commit_ttl for table in tables),
        any(table.mirrors for table in tables),
        tuple(sorted(each for each in deadlines if each is not None)),
        overrides(operation, None, told),
    )


def own_table(
    table: TableSettings, operation: Operation, fleet: FleetSettings, told: Told = NOTHING
) -> OneTable:
    """Return what a table's own DAG of an operation works on, with its clock.

    Raises UsageError: the DAG file gives it a schedule besides that of the settings.
    """
    cron, named = cron_of(table, operation, fleet), dag_id(operation, table.name)
    found = overrides(operation, table, told)
    if found.schedule and (cron is not None or started_by_planner(table, operation, fleet)):
        setting = f"{SECTIONS[operation]}.schedule"
        raise UsageError(
            f"the DAG file gives {named} a schedule, and {setting} of table {table.name} has one",
            next_step=f"leave it out there, or write {setting}: null",
        )
    return OneTable(table, clock_of(cron, named), _in_utc(found, named))


def _in_utc(found: Overrides, dag_id: str) -> Overrides:
    """Return overrides with the schedule of a DAG file as one of the settings: spread, in UTC."""
    told = found.said.get("schedule")
    if not isinstance(told, str):
        return found
    return Overrides({**found.said, "schedule": clock_of(told, dag_id)})


def asset_of(table: TableSettings) -> Asset:
    """Return the asset of the table's rows; tasks that write the table name it as an outlet."""
    name = f"{table.name}.table" if table.name in _RESERVED else table.name
    return Asset(name=name, uri=table.asset_uri, group="firnline")


def assets_of(table: TableSettings) -> tuple[Asset, Asset]:
    """Return the asset of the table's rows, and that of its upkeep, which leaves them as they are.

    Only the first wakes a merge, or whoever waits for new rows.
    """
    upkeep = Asset(
        name=f"{table.name}:upkeep", uri=f"{table.asset_uri.rstrip('/')}/_log", group="firnline"
    )
    return asset_of(table), upkeep


def asset_for(table: TableSettings, about: AnyDag) -> Asset:
    """Return the asset of a table on which an operation has its events."""
    rows, upkeep = assets_of(table)
    return upkeep if about.keeps_rows else rows


def clock_or_rows(table: DagTable) -> AssetOrTimeSchedule | list[Asset] | None:
    """Return a schedule by the table's clock and by events on its rows; None for a run's table."""
    if table.known is None:
        return None
    rows, clock = asset_of(table.known), table.clock
    return [rows] if clock is None else AssetOrTimeSchedule(timetable=clock, assets=[rows])


def clock_of(cron: str | None, dag_id: str | None = None) -> CronTriggerTimetable | None:
    """Return a schedule by cron (UTC); None without ``cron``: manual runs only.

    Args:
        cron: a preset or five fields.
        dag_id: of one table's DAG: a preset is spread by it (``settings.cron.spread``).
    """
    if cron is None:
        return None
    return CronTriggerTimetable(cron if dag_id is None else spread(cron, dag_id), timezone="UTC")
