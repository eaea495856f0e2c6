"""Airflow as a witness of a table's history: the digests in the events on its asset.

Every task that changes a table reports its newest transaction and the digest of it there, in
Airflow's database, which those who write to the bucket need no access to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from firnline.errors import EnvironmentFaultError, UsageError
from firnline.state.witness import Witness

if TYPE_CHECKING:
    from firnline.settings.load import TableSettings

_NEWEST = 50
"""Events that are compared: transactions of older ones are past their retention, or will be soon
(the newest hundred are always kept)."""


def of_events(settings: TableSettings) -> tuple[str, ...]:
    """Return the witnesses in the newest events on the table's assets; for a task.

    Two requests to Airflow's API server.
    """
    from airflow.sdk.execution_time.context import InletEventsAccessors

    from firnline.airflow.tables import assets_of
    from firnline.airflow.versions import newest

    # Not those of the task: in a DAG for all tables it has no inlets.
    seen = InletEventsAccessors(list(assets_of(settings)))
    events = [event for each in seen for event in newest(seen[each], _NEWEST)]
    return _lines(settings.name, (event.extra for event in events))


def of_database(settings: TableSettings) -> tuple[str, ...]:
    """Return the witnesses in the newest events on the table's assets, from Airflow's database.

    Raises:
        UsageError: Airflow is not installed, or no event has a digest.
        EnvironmentFaultError: its database does not answer, or has no tables yet.
    """
    try:
        from airflow import settings as airflow
        from sqlalchemy import column, select, table
        from sqlalchemy.exc import DBAPIError
    except ImportError:
        raise UsageError(
            "`airflow` as a witness needs Airflow and its configuration in this environment",
            next_step="run it where Airflow runs, or give a line or a file of `firnline witness`",
        ) from None
    from firnline.airflow.tables import assets_of

    event = table("asset_event", *map(column, ("asset_id", "extra", "timestamp")))
    asset = table("asset", *map(column, ("id", "name")))
    query = (
        select(event.c.extra)
        .join(asset, asset.c.id == event.c.asset_id)
        .where(asset.c.name.in_([each.name for each in assets_of(settings)]))
        .order_by(event.c.timestamp.desc())
        .limit(_NEWEST)
    )
    configured: Any = airflow
    configured.initialize()
    try:
        with configured.engine.connect() as connection:
            found = _lines(settings.name, (extra for (extra,) in connection.execute(query)))
    except DBAPIError as error:
        why = (str(error.orig).strip().splitlines() or [""])[0]
        raise EnvironmentFaultError(
            f"Airflow's database does not tell the events on the asset of table {settings.name}: "
            f"{why}",
            next_step="see that it runs and was made by `airflow db migrate`, and that Airflow's "
            "configuration in this environment names it, or give a line of `firnline witness`",
        ) from error
    if not found:
        raise UsageError(
            f"no event on the asset of table {settings.name} in Airflow's database has a digest",
            next_step="they come with the next run of a DAG that changes the table",
        )
    return found


def _lines(name: str, extras: Iterable[Any]) -> tuple[str, ...]:
    found = []
    for extra in extras:
        # JSON as text, on some databases.
        plain = json.loads(extra) if isinstance(extra, str) else extra
        head = plain.get("head") if isinstance(plain, Mapping) else None
        if isinstance(head, Mapping):
            found.append(str(Witness(name, int(head["seq"]), str(head["digest"]))))
    return tuple(found)
